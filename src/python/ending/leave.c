#define PY_SSIZE_T_CLEAN
#include "leave.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "at_exit.h"
#include "exit_wait.h"
#include "instrument.h"
#include "method_swap.h"
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

static bool will_exec(PyObject *path)
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
    PyErr_Clear();
    return found;
}

bool leave_by_exec(PyObject *path)
{
    if (!callback || getpid() != self || !will_exec(path))
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
