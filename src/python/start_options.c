/* start_options.c - the arguments of _native.start: what a run collects.
 *
 * Context: with the GIL.
 */
#include "native.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kept_calls.h"

enum kind { INT, FLAG, UINT32, UINT64, PATH, OBJECT };

/* The keywords: to add one is a line here and a field in a struct.  Their meanings and units are the fields'. */
#define SAMPLER(field) offsetof(struct start_options, sampler.field)
#define HERE(field) offsetof(struct start_options, field)
static const struct field {
    const char *name;
    enum kind kind;
    size_t at;
} fields[] = {
    {"period_ns", UINT64, SAMPLER(period_ns)},
    {"clock", INT, SAMPLER(clock)},
    {"engine", INT, SAMPLER(engine)},
    {"kernel_frames", INT, SAMPLER(kernel_frames)},
    {"max_frames", UINT32, SAMPLER(max_frames)},
    {"ring_bytes", UINT32, SAMPLER(ring_bytes)},
    {"max_nodes", UINT32, SAMPLER(max_nodes)},
    {"max_timeline_bytes", UINT64, SAMPLER(max_timeline_bytes)},
    {"exact", FLAG, SAMPLER(exact)},
    {"events", FLAG, SAMPLER(log_events)},
    {"event_windows", FLAG, SAMPLER(log_windows)},
    {"keep_events_ns", UINT64, SAMPLER(keep_events_ns)},
    {"wall_threads", OBJECT, SAMPLER(wall_threads)}, /* bytes: set_wall_threads */
    {"inherits", FLAG, SAMPLER(inherits)},
    {"known_period_ns", UINT64, SAMPLER(known_period_ns)},
    {"known_cost_ns", UINT64, SAMPLER(known_cost_ns)},
    {"call_cost", OBJECT, HERE(call_cost)},
    {"module_table", FLAG, SAMPLER(module_table)},
    {"backend", PATH, SAMPLER(backend_path)},
    {"lines", FLAG, HERE(lines)},
    {"c_calls", FLAG, HERE(c_calls)},
    {"tasks", FLAG, HERE(tasks)},
    {"counts", FLAG, HERE(counts)},
    {"paused", FLAG, HERE(paused)},
    {"filter", OBJECT, HERE(filter)},
    {"keep", OBJECT, HERE(keep)},
    {"lines_of", OBJECT, HERE(lines_of)},
    {"arguments_of", OBJECT, HERE(arguments_of)},
    {"max_calls", UINT32, HERE(max_calls)},
    {"usage", UINT32, HERE(usage)},
    {"usage_of", OBJECT, HERE(usage_of)},
    {"own", OBJECT, HERE(own)},
};

static int set_wall_threads(struct sampler_options *o, PyObject *value)
{
    char *patterns;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(value, &patterns, &length))
        return -1;
    o->wall_threads = patterns;
    o->wall_threads_length = (size_t)length;
    return 0;
}

static int set_path(const char **path, PyObject *value)
{
    *path = value == Py_None ? NULL : PyUnicode_AsUTF8(value);
    return PyErr_Occurred() ? -1 : 0;
}

static int set(struct start_options *o, const struct field *f, PyObject *value)
{
    void *at = (char *)o + f->at;
    unsigned long long number = 0;
    if (at == &o->sampler.wall_threads)
        return set_wall_threads(&o->sampler, value);
    switch (f->kind) {
    case PATH:
        return set_path(at, value);
    case OBJECT:
        *(PyObject **)at = value == Py_None ? NULL : value;
        return 0;
    case FLAG:
        return (*(int *)at = PyObject_IsTrue(value)) < 0 ? -1 : 0;
    case INT:
        *(int *)at = (int)PyLong_AsLong(value);
        break;
    case UINT32:
        number = PyLong_AsUnsignedLongLong(value);
        if (number > UINT32_MAX && !PyErr_Occurred())
            PyErr_Format(PyExc_OverflowError, "%s is too large", f->name);
        *(uint32_t *)at = (uint32_t)number;
        break;
    case UINT64:
        *(uint64_t *)at = PyLong_AsUnsignedLongLong(value);
        break;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int set_by_name(struct start_options *o, PyObject *name, PyObject *value)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!PyUnicode_CompareWithASCIIString(name, fields[i].name))
            return set(o, &fields[i], value);
    PyErr_Format(PyExc_TypeError, "start() got an unexpected keyword argument %R", name);
    return -1;
}

int start_options_parse(struct start_options *o, PyObject *args, PyObject *keywords)
{
    *o = (struct start_options){
        .sampler = {.period_ns = 1001001, .max_frames = 2048, .max_nodes = 2000000},
        .counts = 1,
        .max_calls = CALLS_MAX};
    PyObject *name, *value;
    Py_ssize_t next = 0;
    if (!PyArg_ParseTuple(args, "i", &o->sampler.spool_fd))
        return -1;
    while (keywords && PyDict_Next(keywords, &next, &name, &value))
        if (set_by_name(o, name, value))
            return -1;
    return 0;
}
