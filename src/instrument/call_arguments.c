/* call_arguments.c - a call's arguments as the spool has them, like a region's attributes (region_attributes.c).
 *
 * Context: with the GIL, where the call begins.  Nothing of the program runs: values are told by their exact types
 * (value_text.h).
 */
#include "shadow.h"

#include <string.h>

#include "value_text.h"

#define ROOM_FOR_MORE 32 /* bytes: a field that says that there are more */

static Py_ssize_t n_arguments(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}

/* False: there is no room. */
static bool add(PyFrameObject *frame, PyObject *name, unsigned char *to, size_t *n)
{
    char text[VALUE_TEXT_BYTES];
    PyObject *value = PyFrame_GetVar(frame, name); /* of a cell what is in it */
    if (!value) {
        PyErr_Clear();
        return true;
    }
    value_text(text, value);
    Py_DECREF(value);
    return region_attributes_add(to, REGION_ATTRIBUTES_MAX - ROOM_FOR_MORE, n, name, text);
}

size_t call_arguments(PyCodeObject *code, unsigned char to[static REGION_ATTRIBUTES_MAX])
{
    size_t n = 0;
    Py_ssize_t n_all = n_arguments(code), i = 0;
    if (!n_all)
        return 0;
    PyObject *error = PyErr_GetRaisedException();
    PyObject *names = PyCode_GetVarnames(code), *more = PyUnicode_FromString("...");
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (names && more && frame && i < n_all && add(frame, PyTuple_GET_ITEM(names, i), to, &n))
        i++;
    if (names && more && frame && i < n_all)
        region_attributes_add(to, REGION_ATTRIBUTES_MAX, &n, more, "...");
    Py_XDECREF(names);
    Py_XDECREF(more);
    Py_XDECREF(frame);
    PyErr_SetRaisedException(error);
    return n;
}
