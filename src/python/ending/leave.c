/* leave.c - the program ends without exit(): by os._exit(), or by exec, and its profile is made all the same.
 *
 * os._exit() waits for it, with the GIL, so that no thread goes on in Python.  Before an exec the profile ends, if
 * that is sure to succeed (as far as one can know): what fails, as a search through $PATH does, is no end.
 *
 * Context: with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include "ending.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instrument.h"
#include "native.h"
#include "sampler.h"

static PyObject *callback; /* that of a forked child stays: the object cannot be freed there */
static pid_t self;

/* No handler of the program's runs in our code; there is none after it. */
static void hold_signals(void)
{
    PyObject *signal = PyImport_ImportModule("_signal");
    if (signal)
        at_exit_hold_signals(signal);
    Py_XDECREF(signal);
    PyErr_Clear();
}

static void leave(bool execs)
{
    PyObject *error = PyErr_GetRaisedException(), *call = callback;
    callback = NULL;
    instrument_pause();
    sampler_pause();
    if (!execs)
        hold_signals();
    Py_XDECREF(PyObject_CallOneArg(call, execs ? Py_True : Py_False));
    Py_DECREF(call);
    PyErr_SetRaisedException(error);
}

static PyObject *exit_at_once(PyObject *module, PyObject *const *args, Py_ssize_t n,
                              PyObject *names);

static struct method_swap swap = {.module = "posix",
                                  .name = "_exit",
                                  .flags = METH_FASTCALL | METH_KEYWORDS,
                                  .ours = (PyCFunction)(void (*)(void))exit_at_once};

/* A number that fits an int: with other arguments os._exit() does not end. */
static bool is_status(PyObject *value)
{
    int overflow = 0;
    long status = PyLong_Check(value) ? PyLong_AsLongAndOverflow(value, &overflow) : LONG_MAX;
    return !overflow && status == (int)status;
}

/* os._exit(status), in place of posixmodule.c's. */
static PyObject *exit_at_once(PyObject *module, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    typedef PyObject *exit_call(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    exit_call *original = (exit_call *)(void (*)(void))swap.original;
    Py_ssize_t given = n + (names ? PyTuple_GET_SIZE(names) : 0);
    if (getpid() == self && given == 1 && is_status(args[0])) {
        if (callback)
            leave(false);
        exit_wait_now();
    }
    return original(module, args, n, names);
}

/* Is it a program, or a script that names its interpreter? */
static bool can_exec(const char *path)
{
    struct stat st;
    char head[4] = "";
    if (stat(path, &st) || !S_ISREG(st.st_mode) || access(path, X_OK))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* it may be executed, not read */
        return true;
    ssize_t length = read(fd, head, sizeof head);
    close(fd);
    return length == sizeof head && (!memcmp(head, "\177ELF", 4) || !memcmp(head, "#!", 2));
}

static bool is_program(PyObject *path)
{
    char by_number[32];
    PyObject *bytes = NULL;
    bool found = false;
    if (PyLong_Check(path)) {
        snprintf(by_number, sizeof by_number, "/proc/self/fd/%ld", PyLong_AsLong(path));
        found = can_exec(by_number);
    } else if (PyUnicode_FSConverter(path, &bytes)) {
        found = can_exec(PyBytes_AS_STRING(bytes));
        Py_DECREF(bytes);
    }
    return found;
}

/* What a program is given, as the kernel counts it: bytes with each string's NUL. */
struct given {
    size_t bytes, n_strings, longest;
};

static void give(struct given *g, size_t length)
{
    g->bytes += length + 1;
    g->n_strings++;
    if (g->longest < length + 1)
        g->longest = length + 1;
}

static size_t length_of(PyObject *text)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(text, &bytes))
        return 0;
    size_t length = (size_t)PyBytes_GET_SIZE(bytes);
    Py_DECREF(bytes);
    return length;
}

/* Any other mapping than a dict is os.environ, as a rule: the same as the process's own. */
static void give_environment(struct given *g, PyObject *environment)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (PyDict_Check(environment))
        while (PyDict_Next(environment, &at, &key, &value))
            give(g, length_of(key) + strlen("=") + length_of(value));
    else
        for (char **variable = environ; variable && *variable; variable++)
            give(g, strlen(*variable));
}

/* execve(2), "Limits on size of arguments and environment"; Linux fs/exec.c, bprm_stack_limits(). */
static bool has_room(const struct given *g)
{
    enum { STRING_MAX = 32 * 4096, LEAST = 128 << 10, MOST = 6 << 20 };
    struct rlimit stack;
    size_t limit = MOST;
    if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur / 4 < limit)
        limit = stack.rlim_cur / 4 > LEAST ? stack.rlim_cur / 4 : LEAST;
    return g->longest <= STRING_MAX && g->bytes + g->n_strings * sizeof(char *) <= limit;
}

static bool will_exec(PyObject *path, PyObject *arguments, PyObject *environment)
{
    struct given g = {0};
    bool list = PyList_Check(arguments);
    Py_ssize_t n = list || PyTuple_Check(arguments) ? PySequence_Fast_GET_SIZE(arguments) : 0;
    for (Py_ssize_t i = 0; i < n; i++)
        give(&g, length_of(PySequence_Fast_GET_ITEM(arguments, i)));
    give_environment(&g, environment);
    bool found = is_program(path) && has_room(&g);
    PyErr_Clear();
    return found;
}

bool leave_by_exec(PyObject *args)
{
    PyObject *path, *arguments, *environment;
    if (!callback || getpid() != self)
        return false;
    if (!PyArg_ParseTuple(args, "OOO", &path, &arguments, &environment)) {
        PyErr_Clear();
        return false;
    }
    if (!will_exec(path, arguments, environment))
        return false;
    leave(true);
    return true;
}

void leave_watch(PyObject *call)
{
    leave_unwatch();
    self = getpid();
    callback = Py_NewRef(call);
    method_swap_in(&swap);
}

void leave_unwatch(void)
{
    if (getpid() == self)
        Py_CLEAR(callback);
    callback = NULL;
    method_swap_out(&swap);
}
