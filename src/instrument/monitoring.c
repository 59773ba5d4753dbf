/* Source: PEP 669. */
#define PY_SSIZE_T_CLEAN
#include "monitoring.h"

/* 2, the profilers', last: cProfile and PyTorch's profiler take no other, and fail where it is in use.
 * 0 is debuggers', 1 coverage's. */
static const int tool_ids[] = {4, 3, 2};

int monitoring_call(PyObject *monitoring, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values), *function = NULL, *result = NULL;
    va_end(values);
    if (args && (function = PyObject_GetAttrString(monitoring, name)))
        result = PyObject_CallObject(function, args);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

long monitoring_event(PyObject *monitoring, const char *name)
{
    PyObject *all = PyObject_GetAttrString(monitoring, "events"), *value = NULL;
    if (all)
        value = PyObject_GetAttrString(all, name);
    long bit = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(all);
    Py_XDECREF(value);
    return bit;
}

int monitoring_claim(PyObject *monitoring)
{
    for (size_t i = 0; i < sizeof tool_ids / sizeof *tool_ids; i++) {
        if (!monitoring_call(monitoring, "use_tool_id", "(is)", tool_ids[i], "pyhybrid"))
            return tool_ids[i];
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear(); /* it is in use */
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "no tool id of sys.monitoring is free (4, 3 and 2 are in use)");
    return -1;
}
