/* Sources: Objects/methodobject.c, Objects/descrobject.c of CPython 3.12 to 3.15. */
#include "value_text.h"

#include <stdio.h>

#include "names.h"

static void copy_string(char to[VALUE_TEXT_BYTES], const char *before, PyObject *text,
                        const char *after)
{
    char *end = to + VALUE_TEXT_BYTES - strlen(after) - NAMES_CHARACTER_BYTES;
    to = stpcpy(to, before);
    Py_ssize_t n = PyUnicode_GET_LENGTH(text), i = 0;
    while (i < n && to < end)
        names_append(&to, PyUnicode_READ_CHAR(text, i++));
    if (i < n)
        to = stpcpy(to, "...");
    stpcpy(to, after);
}

static void type_text(char to[VALUE_TEXT_BYTES], PyObject *value)
{
    snprintf(to, VALUE_TEXT_BYTES, "<%s>", Py_TYPE(value)->tp_name);
}

static void sized(char to[VALUE_TEXT_BYTES], PyObject *value, Py_ssize_t n)
{
    snprintf(to, VALUE_TEXT_BYTES, "<%s of %zd>", Py_TYPE(value)->tp_name, n);
}

static void int_text(char to[VALUE_TEXT_BYTES], PyObject *value)
{
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        type_text(to, value);
    else
        snprintf(to, VALUE_TEXT_BYTES, "%lld", n);
}

static void float_text(char to[VALUE_TEXT_BYTES], double value)
{
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    snprintf(to, VALUE_TEXT_BYTES, "%s", text ? text : "<float>");
    PyMem_Free(text);
    if (!text)
        PyErr_Clear();
}

static void exception_text(char to[VALUE_TEXT_BYTES], PyObject *value)
{
    PyObject *args = ((PyBaseExceptionObject *)value)->args;
    PyObject *only = args && PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    char before[VALUE_TEXT_BYTES / 2];
    const char *name = Py_TYPE(value)->tp_name;
    if (only && PyUnicode_CheckExact(only)) {
        snprintf(before, sizeof before, "%s: ", name);
        copy_string(to, before, only, "");
    } else {
        snprintf(to, VALUE_TEXT_BYTES, "%s", name);
    }
}

void value_text(char to[VALUE_TEXT_BYTES], PyObject *value)
{
    if (value == Py_None)
        strcpy(to, "None");
    else if (PyBool_Check(value))
        strcpy(to, value == Py_True ? "True" : "False");
    else if (PyLong_CheckExact(value))
        int_text(to, value);
    else if (PyFloat_CheckExact(value))
        float_text(to, PyFloat_AS_DOUBLE(value));
    else if (PyUnicode_CheckExact(value))
        copy_string(to, "'", value, "'");
    else if (PyTuple_CheckExact(value) || PyList_CheckExact(value))
        sized(to, value, Py_SIZE(value));
    else if (PyDict_CheckExact(value))
        sized(to, value, PyDict_GET_SIZE(value));
    else if (PyExceptionInstance_Check(value))
        exception_text(to, value);
    else
        type_text(to, value);
}

void value_repr(char to[VALUE_TEXT_BYTES], PyObject *value)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *text = PyObject_Repr(value);
    if (text)
        copy_string(to, "", text, "");
    else
        value_text(to, value);
    if (!text && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt(); /* it was for the program */
    Py_XDECREF(text);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
}

void value_callable(char to[VALUE_TEXT_BYTES], PyObject *callable)
{
    if (Py_IS_TYPE(callable, &PyMethod_Type))
        callable = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(callable))
        copy_string(to, "", ((PyFunctionObject *)callable)->func_qualname, "");
    else if (PyCFunction_Check(callable))
        snprintf(to, VALUE_TEXT_BYTES, "%s", ((PyCFunctionObject *)callable)->m_ml->ml_name);
    else if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        snprintf(to, VALUE_TEXT_BYTES, "%s.%s",
                 ((PyMethodDescrObject *)callable)->d_common.d_type->tp_name,
                 ((PyMethodDescrObject *)callable)->d_method->ml_name);
    else if (PyType_Check(callable))
        snprintf(to, VALUE_TEXT_BYTES, "%s", ((PyTypeObject *)callable)->tp_name);
    else
        type_text(to, callable);
}
