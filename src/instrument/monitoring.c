/* monitoring.c - what a tool asks of sys.monitoring: a free id, what an event is called there.
 *
 * Context: with the GIL.  Functions that return -1 have set an exception.
 *
 * Source: PEP 669.
 */
#define PY_SSIZE_T_CLEAN
#include "instrument.h"

#include <string.h>

#define N_TOOLS 6 /* ids that sys.monitoring lends */

/* 2, the profilers', last: cProfile and PyTorch's profiler take no other, and fail where it is in use.
 * 0 is debuggers', 1 coverage's. */
static const int tool_ids[] = {4, 3, 2};

static bool is_our_call, others;

int monitoring_call(PyObject *monitoring, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values), *function = NULL, *result = NULL;
    va_end(values);
    if (args && (function = PyObject_GetAttrString(monitoring, name))) {
        is_our_call = true;
        result = PyObject_CallObject(function, args);
        is_our_call = false;
    }
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

/* Does another tool get the events of all functions? */
static bool has_events(PyObject *monitoring, int id)
{
    PyObject *events = PyObject_CallMethod(monitoring, "get_events", "i", id);
    bool some = events && PyObject_IsTrue(events) > 0;
    Py_XDECREF(events);
    PyErr_Clear(); /* nobody uses the id */
    return some;
}

bool monitoring_look_for_others(PyObject *monitoring, int own)
{
    const PyThreadState *state = PyThreadState_Get();
    bool watched = false;
    for (int id = 0; id < N_TOOLS; id++)
        watched |= id != own && has_events(monitoring, id);
    others = watched || state->c_tracefunc || state->c_profilefunc;
    return watched;
}

void monitoring_audit(const char *event, PyObject *args)
{
    bool registers = !strcmp(event, "sys.monitoring.register_callback") && !is_our_call &&
                     PyTuple_GET_SIZE(args) && PyTuple_GET_ITEM(args, 0) != Py_None;
    others |= registers || !strcmp(event, "sys.settrace") || !strcmp(event, "sys.setprofile");
}

bool monitoring_has_others(void)
{
    return others;
}
