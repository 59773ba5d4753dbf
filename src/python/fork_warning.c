#define PY_SSIZE_T_CLEAN
#include "fork_warning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS 9 /* fields of /proc/PID/stat, man 5 proc */
#define NUM_THREADS 20
#define ENDING 0x4 /* linux/sched.h, PF_EXITING */

static struct {
    pid_t pid; /* of the process that this holds for */
    long n_ours;
    PyObject *entries; /* NULL: forks are none of our business */
    PyObject *filters; /* the list that has them now; NULL: none has */
} quiet;

/* --- which threads live ----------------------------------------------------------------------------------- */

/* A number in a `stat`, from the third field on; -1: it cannot be read. */
static long stat_field(int folder, const char *path, int field)
{
    char text[1024];
    int fd = TEMP_FAILURE_RETRY(openat(folder, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return -1;
    ssize_t n = TEMP_FAILURE_RETRY(read(fd, text, sizeof text - 1));
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *p = strrchr(text, ')'); /* the second one's end, which may have any character */
    for (int at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    return p ? strtol(p, NULL, 10) : -1;
}

struct dirent64_head { /* man 2 getdents64 */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Those that do not end just now, as far as `most` + 1.  The kernel has the main thread, when it has ended, for as long as the
 * process lives: that one counts. */
static long count_live(int folder, long most)
{
    char buffer[512], main_thread[16] = "", path[280];
    long bytes, n = 0;
    if (readlink("/proc/self", main_thread, sizeof main_thread - 1) < 0)
        return -1;
    while ((bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < bytes;) {
            const struct dirent64_head *d = (const void *)(buffer + at);
            at += d->length;
            if (*d->name == '.')
                continue;
            snprintf(path, sizeof path, "%s/stat", d->name);
            long flags = stat_field(folder, path, FLAGS);
            n += !strcmp(d->name, main_thread) || (flags >= 0 && !(flags & ENDING));
            if (n > most) /* there may be thousands */
                return n;
        }
    return bytes < 0 ? -1 : n;
}

static bool live_threads_are(long number)
{
    long n = stat_field(AT_FDCWD, "/proc/self/stat", NUM_THREADS);
    if (n <= number) /* as nearly always */
        return n == number;
    int folder = TEMP_FAILURE_RETRY(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0)
        return false;
    n = count_live(folder, number);
    close(folder);
    return n == number;
}

/* --- the filters ---------------------------------------------------------------------------------------- */

static PyObject *attribute(PyObject *modules, const char *module, const char *name)
{
    PyObject *found = PyDict_GetItemString(modules, module);
    return found && PyModule_Check(found) ? PyDict_GetItemString(PyModule_GetDict(found), name)
                                          : NULL;
}

/* Borrowed, the list that counts: that of `_warnings` before `warnings` is imported.  NULL: there is none that can be had
 * without code of the program's. */
static PyObject *current_filters(void)
{
    PyObject *modules = PyImport_GetModuleDict(), *list = NULL;
    if (PyDict_CheckExact(modules)) {
        bool imported = PyDict_GetItemString(modules, "warnings") != NULL;
        list = attribute(modules, imported ? "warnings" : "_warnings", "filters");
    }
    return list && PyList_CheckExact(list) ? list : NULL;
}

static bool is_ours(PyObject *entry)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(quiet.entries); i++)
        if (PyList_GET_ITEM(quiet.entries, i) == entry)
            return true;
    return false;
}

static void take_from(PyObject *filters)
{
    for (Py_ssize_t i = 0; filters && i < PyList_GET_SIZE(filters);)
        if (!is_ours(PyList_GET_ITEM(filters, i)))
            i++;
        else if (PyList_SetSlice(filters, i, i + 1, NULL) < 0)
            return PyErr_Clear();
}

/* Also from a copy that the program made of the list meanwhile (warnings.catch_warnings). */
static void forget(void)
{
    if (quiet.filters) {
        take_from(quiet.filters);
        take_from(current_filters());
    }
    Py_CLEAR(quiet.filters);
}

PyObject *fork_warning_before(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    forget();
    PyObject *filters = NULL;
    if (quiet.entries && quiet.pid == getpid() && live_threads_are(1 + quiet.n_ours))
        filters = current_filters();
    /* Not announced (_filters_mutated): that would show the program's own warnings again. */
    if (filters && PyList_SetSlice(filters, 0, 0, quiet.entries) == 0)
        quiet.filters = Py_NewRef(filters);
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyObject *fork_warning_forget(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    forget();
    Py_RETURN_NONE;
}

PyObject *fork_warning_quiet(PyObject *self, PyObject *args)
{
    (void)self;
    long n_ours;
    PyObject *entries;
    if (!PyArg_ParseTuple(args, "lO", &n_ours, &entries))
        return NULL;
    if (entries != Py_None && !PyList_Check(entries))
        return PyErr_Format(PyExc_TypeError, "filters must be a list or None");
    forget();
    Py_CLEAR(quiet.entries);
    quiet.pid = getpid();
    quiet.n_ours = n_ours;
    quiet.entries = entries == Py_None ? NULL : Py_NewRef(entries);
    Py_RETURN_NONE;
}

PyObject *fork_warning_threads(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(stat_field(AT_FDCWD, "/proc/self/stat", NUM_THREADS));
}
