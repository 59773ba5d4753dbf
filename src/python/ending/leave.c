/* leave.c - the program ends without exit(): by os._exit(), by exec, or by a signal that it sends itself, and its
 * profile is made all the same.
 *
 * os._exit() waits for it, with the GIL, so that no thread goes on in Python.  Before an exec the profile ends, if
 * that is sure to succeed (as far as one can know): what fails, as a search through $PATH does, is no end.  Before a
 * signal that ends the process (workers of uvicorn raise the one that they have handled) the spool gets what there is.
 *
 * Context: with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include "ending.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
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

/* Does it end the process, as far as one can know? */
static bool is_deadly(int number)
{
    struct sigaction action;
    switch (number) {
    case SIGKILL:
        return true;
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return false;
    }
    return number > 0 && !sigaction(number, NULL, &action) && action.sa_handler == SIG_DFL;
}

static PyObject *raise_at_once(PyObject *module, PyObject *number);

static struct method_swap raise_swap = {
    .module = "_signal", .name = "raise_signal", .flags = METH_O, .ours = raise_at_once};

/* signal.raise_signal(number), in place of signalmodule.c's. */
static PyObject *raise_at_once(PyObject *module, PyObject *number)
{
    if (is_status(number) && is_deadly((int)PyLong_AsLong(number)))
        sampler_flush();
    return raise_swap.original(module, number);
}

static PyObject *abort_at_once(PyObject *module, PyObject *unused);

static struct method_swap abort_swap = {
    .module = "posix", .name = "abort", .flags = METH_NOARGS, .ours = abort_at_once};

/* os.abort(), in place of posixmodule.c's. */
static PyObject *abort_at_once(PyObject *module, PyObject *unused)
{
    sampler_flush();
    return abort_swap.original(module, unused);
}

void leave_by_kill(const char *event, PyObject *args)
{
    long to, number;
    bool own;
    if (!PyArg_ParseTuple(args, "ll", &to, &number)) {
        PyErr_Clear();
        return;
    }
    if (!strcmp(event, "os.kill"))
        own = to == getpid() || to == 0 || to == -1 || to == -getpgrp();
    else if (!strcmp(event, "os.killpg"))
        own = to == 0 || to == getpgrp();
    else
        own = !strcmp(event, "signal.pthread_kill");
    if (own && is_deadly((int)number))
        sampler_flush();
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
    method_swap_in(&raise_swap);
    method_swap_in(&abort_swap);
}

void leave_unwatch(void)
{
    if (getpid() == self)
        Py_CLEAR(callback);
    callback = NULL;
    method_swap_out(&swap);
    method_swap_out(&raise_swap);
    method_swap_out(&abort_swap);
}
