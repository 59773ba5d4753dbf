/* spawns.c - counts the processes that Python starts: subprocess, multiprocessing, os.posix_spawn, os.system, and
 * those that a fork server of multiprocessing makes for this process.
 *
 * Source: CPython Modules/_posixsubprocess.c (fork_exec, which nothing announces where multiprocessing calls it),
 * Modules/posixmodule.c, Lib/multiprocessing/forkserver.py.
 *
 * Context: with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include "native.h"

#include <string.h>

typedef PyObject *fast(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *fast_keywords(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static void (*count_one)(void);
static __thread bool forks;

static PyObject *counted(PyObject *result)
{
    if (result && count_one)
        count_one();
    return result;
}

static PyObject *fork_exec(PyObject *self, PyObject *const *args, Py_ssize_t n);
static PyObject *posix_spawn(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
static PyObject *posix_spawnp(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

enum { FORK_EXEC, SPAWN, SPAWNP, N };
static struct method_swap swaps[N] = {
    {.module = "_posixsubprocess",
     .name = "fork_exec",
     .flags = METH_FASTCALL,
     .ours = (PyCFunction)(void (*)(void))fork_exec},
    {.module = "posix",
     .name = "posix_spawn",
     .flags = METH_FASTCALL | METH_KEYWORDS,
     .ours = (PyCFunction)(void (*)(void))posix_spawn},
    {.module = "posix",
     .name = "posix_spawnp",
     .flags = METH_FASTCALL | METH_KEYWORDS,
     .ours = (PyCFunction)(void (*)(void))posix_spawnp},
};

static PyObject *fork_exec(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    forks = true; /* where vfork will not do, it forks */
    PyObject *result = ((fast *)(void (*)(void))swaps[FORK_EXEC].original)(self, args, n);
    forks = false;
    return counted(result);
}

static PyObject *posix_spawn(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return counted(((fast_keywords *)(void (*)(void))swaps[SPAWN].original)(self, args, n, names));
}

static PyObject *posix_spawnp(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return counted(((fast_keywords *)(void (*)(void))swaps[SPAWNP].original)(self, args, n, names));
}

void spawns_watch(void (*count)(void))
{
    count_one = count;
    for (int i = 0; i < N; i++)
        method_swap_in(&swaps[i]);
}

void spawns_unwatch(void)
{
    count_one = NULL;
    for (int i = 0; i < N; i++)
        method_swap_out(&swaps[i]);
}

static bool called_by(const char *qualified_name)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame)
        return false;
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool found = PyUnicode_CompareWithASCIIString(code->co_qualname, qualified_name) == 0;
    Py_DECREF(code);
    return found;
}

void spawns_audit(const char *event)
{
    if (count_one &&
        (!strcmp(event, "os.system") ||
         (!strcmp(event, "socket.connect") && called_by("ForkServer.connect_to_new_process"))))
        count_one();
}

bool spawns_forks(void)
{
    return forks;
}
