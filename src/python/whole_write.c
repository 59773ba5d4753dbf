/* whole_write.c - an unbuffered stream's `write` that a signal cannot cut short.
 *
 * A signal that comes while write(2) fills a pipe makes it return what it wrote so far (man 7 signal).
 * The text layer of `python -u` calls FileIO.write once and drops its count, so the rest would be lost.
 *
 * Context: ordinary, with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "native.h"

/* The interpreter counts calls of C functions up to a limit (before 3.14).  Ours is one more where there was one: a
 * traceback that is written just at that limit needs the last one. */
static void deepen(int by)
{
#if PY_VERSION_HEX < 0x030e0000
    PyThreadState_Get()->c_recursion_remaining += by;
#else
    (void)by;
#endif
}

/* FileIO.write(raw, bytes): how many were written; -1: not a number, which is in `*result` (NULL: an
 * exception). */
static Py_ssize_t write_once(PyObject *raw, PyObject *bytes, PyObject **result)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(raw), "write");
    deepen(1);
    *result = method ? PyObject_CallFunctionObjArgs(method, raw, bytes, NULL) : NULL;
    deepen(-1);
    Py_XDECREF(method);
    return *result && PyLong_Check(*result) ? PyLong_AsSsize_t(*result) : -1;
}

static PyObject *write_rest(PyObject *raw, Py_buffer *all, Py_ssize_t done)
{
    while (done < all->len) {
        if (PyErr_CheckSignals())
            return NULL;
        PyObject *rest =
                     PyMemoryView_FromMemory((char *)all->buf + done, all->len - done, PyBUF_READ),
                 *result;
        if (!rest)
            return NULL;
        Py_ssize_t n = write_once(raw, rest, &result);
        Py_DECREF(rest);
        if (!result)
            return NULL;
        Py_DECREF(result);
        if (n <= 0)
            break;
        done += n;
    }
    return PyLong_FromSsize_t(done);
}

static PyObject *write_whole(PyObject *raw, PyObject *bytes)
{
    PyObject *result;
    Py_ssize_t n = write_once(raw, bytes, &result);
    Py_buffer all;
    if (n <= 0)
        return result;
    if (PyObject_GetBuffer(bytes, &all, PyBUF_SIMPLE)) {
        Py_DECREF(result);
        return NULL;
    }
    if (n < all.len)
        Py_SETREF(result, write_rest(raw, &all, n));
    PyBuffer_Release(&all);
    return result;
}

static PyMethodDef write_method = {"write", write_whole, METH_O,
                                   "Write bytes to the file: all of them."};

PyObject *whole_write(PyObject *self, PyObject *raw)
{
    (void)self;
    return PyCFunction_New(&write_method, raw);
}
