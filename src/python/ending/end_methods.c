/* end_methods.c - the module's functions for the end of a run.  Context: with the GIL. */
#define PY_SSIZE_T_CLEAN
#include "ending.h"

#include <errno.h>
#include <unistd.h>

#include "instrument.h"
#include "sampler.h"

PyDoc_STRVAR(prepare_exit_doc, "prepare_exit() -> None\n\n"
                               "exit() will wait, if wait_at_exit has named a process by then.");

static PyObject *prepare_exit(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (exit_wait_prepare())
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wait_at_exit_doc, "wait_at_exit(pid: int, spool: bytes) -> None\n\n"
                               "The child that finishes `spool`: see exit_wait.c.");

static PyObject *wait_at_exit(PyObject *self, PyObject *args)
{
    (void)self;
    int pid;
    const char *spool;
    if (!PyArg_ParseTuple(args, "iy", &pid, &spool))
        return NULL;
    exit_wait_for(pid, spool);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(at_exit_doc, "at_exit(signal, finish) -> None\n\n"
                          "An exit function: finish(ends), with signals held; see at_exit.c.");

static PyObject *at_exit(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *signal, *finish;
    if (!PyArg_ParseTuple(args, "OO", &signal, &finish))
        return NULL;
    if (!sampler_running())
        Py_RETURN_NONE;
    instrument_pause(); /* not even the call of `finish` is the program's */
    sampler_pause();
    return at_exit_call(signal, finish);
}

PyDoc_STRVAR(on_leaving_doc, "on_leaving(callback) -> None\n\n"
                             "callback(execs: bool) before this process ends by os._exit, which "
                             "waits as exit()\ndoes, or by exec: see leave.c.");

static PyObject *on_leaving(PyObject *self, PyObject *callback)
{
    (void)self;
    leave_watch(callback);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(spawn_doc,
             "spawn(argv: list[bytes], environment: list[bytes], lock: int, tells: bool) -> int\n\n"
             "Start a child, and return its number: see own_process.c.  Raises OSError.\n"
             "tells: its standard input is exit_wait_socket() (exit_wait.c).");

PyDoc_STRVAR(spawn_orphan_doc,
             "spawn_orphan(argv: list[bytes], environment: list[bytes], lock: int) -> bool\n\n"
             "Start a program that is no child of this process: see own_process.c.\n"
             "False where it would become one.  Raises OSError.");

/* Its items stay the list's; NULL with an exception set. */
static char **strings(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **array = PyMem_Calloc((size_t)n + 1, sizeof *array);
    if (!array)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; array && i < n; i++)
        if (!(array[i] = PyBytes_AsString(PyList_GET_ITEM(list, i)))) {
            PyMem_Free(array);
            array = NULL;
        }
    return array;
}

static pid_t start_child(const char *path, char *const argv[], char *const environment[], int lock,
                         int reports)
{
    int input = reports ? exit_wait_socket() : -1; /* without one nothing is reported */
    pid_t pid = own_process_child(path, argv, environment, lock, input);
    if (input >= 0)
        close(input);
    return pid;
}

static pid_t start_orphan(const char *path, char *const argv[], char *const environment[], int lock,
                          int unused)
{
    (void)unused;
    return own_process_orphan(path, argv, environment, lock, -1, false);
}

static pid_t start_watcher(const char *path, char *const argv[], char *const environment[],
                           int lock, int unused)
{
    (void)path;
    (void)unused;
    return watcher_start(argv, environment, lock);
}

typedef pid_t start_process(const char *, char *const[], char *const[], int, int);

/* What `start` returns; -1 with an exception set. */
static pid_t start(start_process *process, PyObject *args)
{
    PyObject *argv_list, *environment_list;
    int lock, reports = false;
    pid_t pid = -EINVAL;
    if (!PyArg_ParseTuple(args, "O!O!i|p", &PyList_Type, &argv_list, &PyList_Type,
                          &environment_list, &lock, &reports))
        return -1;
    char **argv = strings(argv_list), **environment = argv ? strings(environment_list) : NULL;
    if (environment)
        pid = process(argv[0], argv, environment, lock, reports);
    PyMem_Free(argv);
    PyMem_Free(environment);
    if (pid < 0 && !PyErr_Occurred()) {
        errno = -pid;
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return pid < 0 ? -1 : pid;
}

static PyObject *spawn(PyObject *self, PyObject *args)
{
    (void)self;
    /* As os.posix_spawn; a hook may look, it does not forbid what is ours. */
    if (PySys_Audit("os.posix_spawn", "O", args))
        PyErr_Clear();
    pid_t pid = start(start_child, args);
    return pid < 0 ? NULL : PyLong_FromLong(pid);
}

static PyObject *spawn_orphan(PyObject *self, PyObject *args)
{
    (void)self;
    if (own_process_comes_back())
        Py_RETURN_FALSE;
    if (start(start_orphan, args))
        return NULL;
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(watch_end_doc,
             "watch_end(argv: list[bytes], environment: list[bytes], lock: int) -> bool\n\n"
             "Start the watcher of this process's end: see companion.c.\n"
             "False where it would become a child of this process.  Raises OSError.");

static PyObject *watch_end(PyObject *self, PyObject *args)
{
    (void)self;
    if (own_process_comes_back())
        Py_RETURN_FALSE;
    if (start(start_watcher, args))
        return NULL;
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(dismiss_watcher_doc, "dismiss_watcher() -> None\n\n"
                                  "It ends, and makes no files.");

static PyObject *dismiss_watcher(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    watcher_dismiss();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(keep_companion_doc, "keep_companion(socket: int) -> None\n\n"
                                 "Wait at exit for the process at its other end: companion.c.");

static PyObject *keep_companion(PyObject *self, PyObject *args)
{
    (void)self;
    int socket;
    if (!PyArg_ParseTuple(args, "i", &socket))
        return NULL;
    int error = companion_keep(socket);
    if (error) {
        errno = -error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(message_doc, "companion_said(timeout_ms: int) -> tuple[bytes, bool]\n\n"
                          "What it has said, and whether it has ended: companion.c.");

static PyObject *message(PyObject *self, PyObject *args)
{
    (void)self;
    int timeout_ms;
    bool ended;
    if (!PyArg_ParseTuple(args, "i", &timeout_ms))
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    const char *text = companion_message(timeout_ms, &ended);
    PyEval_RestoreThread(state);
    return Py_BuildValue("yN", text, PyBool_FromLong(ended));
}

PyDoc_STRVAR(drop_companion_doc, "drop_companion() -> None\n\nIt may end.");

static PyObject *drop_companion(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    companion_drop();
    Py_RETURN_NONE;
}

PyMethodDef end_methods[] = {
    {"prepare_exit", prepare_exit, METH_NOARGS, prepare_exit_doc},
    {"wait_at_exit", wait_at_exit, METH_VARARGS, wait_at_exit_doc},
    {"at_exit", at_exit, METH_VARARGS, at_exit_doc},
    {"keep_companion", keep_companion, METH_VARARGS, keep_companion_doc},
    {"companion_said", message, METH_VARARGS, message_doc},
    {"drop_companion", drop_companion, METH_NOARGS, drop_companion_doc},
    {"on_leaving", on_leaving, METH_O, on_leaving_doc},
    {"spawn", spawn, METH_VARARGS, spawn_doc},
    {"spawn_orphan", spawn_orphan, METH_VARARGS, spawn_orphan_doc},
    {"watch_end", watch_end, METH_VARARGS, watch_end_doc},
    {"dismiss_watcher", dismiss_watcher, METH_NOARGS, dismiss_watcher_doc},
    {NULL, NULL, 0, NULL},
};
