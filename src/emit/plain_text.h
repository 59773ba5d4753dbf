/* plain_text.h - a str of the program's where it becomes a C string, or stands between zeros.
 *
 * Context: with the GIL; runs no code of the program's.
 */
#ifndef PYH_PLAIN_TEXT_H
#define PYH_PLAIN_TEXT_H

#include <Python.h>
#include <string.h>

/* Returns the text's UTF-8, as bytes: a NUL is `\x00` (as in a profile: tables/database.py); what cannot be encoded is
 * handled by `errors` (a codec's).  NULL, without an exception: no memory. */
static inline PyObject *plain_text(PyObject *text, const char *errors)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", errors);
    if (bytes && memchr(PyBytes_AS_STRING(bytes), 0, (size_t)PyBytes_GET_SIZE(bytes))) {
        PyObject *zero = PyUnicode_FromStringAndSize("", 1), *shown = PyUnicode_FromString("\\x00");
        PyObject *without = zero && shown ? PyUnicode_Replace(text, zero, shown, -1) : NULL;
        Py_XSETREF(bytes, without ? PyUnicode_AsEncodedString(without, "utf-8", errors) : NULL);
        Py_XDECREF(without);
        Py_XDECREF(shown);
        Py_XDECREF(zero);
    }
    if (!bytes)
        PyErr_Clear();
    return bytes;
}

#endif
