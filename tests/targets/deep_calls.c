/* A C extension that calls Python from ever other places of a deep native stack, as compiled code does (mypyc, Cython).
 *
 *     deep_calls.walk(function, spine, depth)   below `spine` frames, at each node of a binary tree of `depth` levels, first
 *                                               the left one
 *
 * C functions: spine, node, left, right. */
#include <Python.h>

#include <stdbool.h>

#define FRAME __attribute__((noipa)) static bool

FRAME left(PyObject *function, long depth);
FRAME right(PyObject *function, long depth);

/* False: an exception is set.  What comes after a call keeps it from being a jump. */
FRAME node(PyObject *function, long depth)
{
    PyObject *done = PyObject_CallNoArgs(function);
    Py_XDECREF(done);
    bool good = done && (!depth || (left(function, depth - 1) && right(function, depth - 1)));
    __asm__ volatile("");
    return good;
}

FRAME left(PyObject *function, long depth)
{
    bool good = node(function, depth);
    __asm__ volatile("");
    return good;
}

FRAME right(PyObject *function, long depth)
{
    bool good = node(function, depth);
    __asm__ volatile("" ::: "memory");
    return good;
}

FRAME spine(PyObject *function, long n, long depth)
{
    bool good = n ? spine(function, n - 1, depth) : node(function, depth);
    __asm__ volatile("");
    return good;
}

static PyObject *walk(PyObject *self, PyObject *args)
{
    PyObject *function;
    long n, depth;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oll", &function, &n, &depth) || !spine(function, n, depth))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"walk", walk, METH_VARARGS, NULL}, {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "deep_calls", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_deep_calls(void)
{
    return PyModule_Create(&definition);
}
