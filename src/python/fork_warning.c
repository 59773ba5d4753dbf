/* fork_warning.c - the warning of forks in a process with several threads, which does not concern ours.
 *
 * A process with several threads is warned when it forks (CPython Modules/posixmodule.c,
 * warn_about_fork_with_threads, which counts those in /proc/self/stat).  Ours count too, but are harmless: they take no
 * lock of the program's, and children do not need them.  Neither does one that the kernel still takes down: the program
 * has joined it, and the kernel closes its clocks, so it is there for longer than without us.  So a filter for exactly
 * that warning stands first for as long as the process forks.  It matches where there are no other threads; they are
 * counted when it is asked, as late as CPython counts: a library may end its threads, or start them again, in a handler
 * of the C library's fork (pthread_atfork: OpenBLAS does).
 *
 * What is called then is a builtin, which runs no bytecode: a signal's handler that ran in Python code of ours could not
 * raise in the program.  For the same reason no audit hook is notified of it.
 *
 * Context: ordinary, with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include "native.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc_stat.h"

#define ENDING 0x4 /* linux/sched.h, PF_EXITING */

static struct {
    pid_t pid;         /* of the process that this holds for */
    long n_ours;       /* 0: forks are none of our business */
    PyObject *texts;   /* of the warning */
    PyObject *entry;   /* NULL before quiet_forks */
    PyObject *filters; /* the list that has it now; NULL: none has */
} quiet;

/* --- which threads live ----------------------------------------------------------------------------------- */

/* A number of a `stat`; -1: it cannot be read. */
static long number_of(int folder, const char *path, int field)
{
    char text[PROC_STAT_BYTES];
    const char *found = proc_stat_read(folder, path, text) ? proc_stat_field(text, field) : NULL;
    return found ? strtol(found, NULL, 10) : -1;
}

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
            const struct dirent64 *d = (const void *)(buffer + at);
            at += d->d_reclen;
            if (*d->d_name == '.')
                continue;
            snprintf(path, sizeof path, "%s/stat", d->d_name);
            long flags = number_of(folder, path, PROC_STAT_FLAGS);
            n += !strcmp(d->d_name, main_thread) || (flags >= 0 && !(flags & ENDING));
            if (n > most) /* there may be thousands */
                return n;
        }
    return bytes < 0 ? -1 : n;
}

static bool live_threads_are(long number)
{
    long n = number_of(AT_FDCWD, "/proc/self/stat", PROC_STAT_NUM_THREADS);
    if (n <= number) /* as nearly always */
        return n == number;
    int folder = TEMP_FAILURE_RETRY(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0)
        return false;
    n = count_live(folder, number);
    close(folder);
    return n == number;
}

/* --- the filter ----------------------------------------------------------------------------------------- */

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

static void take_from(PyObject *filters)
{
    for (Py_ssize_t i = 0; filters && i < PyList_GET_SIZE(filters);)
        if (PyList_GET_ITEM(filters, i) != quiet.entry)
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
    if (quiet.n_ours && quiet.pid == getpid())
        filters = current_filters();
    /* Not announced (_filters_mutated): that would show the program's own warnings again. */
    if (filters && PyList_Insert(filters, 0, quiet.entry) == 0)
        quiet.filters = Py_NewRef(filters);
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyObject *fork_warning_matches(PyObject *self, PyObject *text)
{
    (void)self;
    int is_it = quiet.texts && quiet.n_ours && quiet.pid == getpid()
                    ? PySequence_Contains(quiet.texts, text)
                    : 0;
    PyErr_Clear();
    return PyBool_FromLong(is_it > 0 && live_threads_are(1 + quiet.n_ours));
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
    PyObject *texts, *entry;
    if (!PyArg_ParseTuple(args, "lO!O!", &n_ours, &PyTuple_Type, &texts, &PyTuple_Type, &entry))
        return NULL;
    forget();
    quiet.pid = getpid();
    quiet.n_ours = n_ours;
    Py_XSETREF(quiet.texts, Py_NewRef(texts));
    Py_XSETREF(quiet.entry, Py_NewRef(entry));
    Py_RETURN_NONE;
}

PyObject *fork_warning_threads(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(number_of(AT_FDCWD, "/proc/self/stat", PROC_STAT_NUM_THREADS));
}
