/* native_tools.c - tools of other systems' instrumentation (capi/), and what instrumented code has set by a session's
 * end.
 *
 * Context: with the GIL.
 */
#include "native.h"

#include <dlfcn.h>
#include <string.h>

#include "defining_library.h"
#include "instrument.h"

static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

#define PERFSTUBS_FAILURE 2 /* perfstubs_api/timer.c: it has looked for a tool, in vain */

/* It looks once, at its first timer: if that was before now, it is to look again. */
static void wake_perfstubs(void)
{
    unsigned long long seen = 0;
    void *library = defining_library("ps_initialize_", &seen);
    int *state = library ? dlsym(library, "perfstubs_initialized") : NULL;
    if (!state || *state != PERFSTUBS_FAILURE)
        return;
    *state = 0;
    ((void (*)(void))dlsym(library, "ps_initialize_"))();
}

static PyObject *open_library(const char *path)
{
    void *library;
    const char *why = NULL;
    Py_BEGIN_ALLOW_THREADS;
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library)
        why = dlerror();
    else if (dlsym(library, "ps_tool_initialize"))
        wake_perfstubs();
    Py_END_ALLOW_THREADS;
    if (library)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_OSError, why);
    return NULL;
}

PyObject *native_open_tool(PyObject *self, PyObject *path)
{
    const char *text = PyBytes_AsString(path);
    (void)self;
    return text ? open_library(text) : NULL;
}

struct values {
    PyObject *counters, *metadata; /* NULL: an exception is set */
};

static void take_counter(void *arg, const struct pyhybrid_counted *c)
{
    struct values *to = arg;
    PyObject *row = to->counters
                        ? Py_BuildValue("{sNsKsdsdsdsd}", "name", text_of(c->name), "n",
                                        (unsigned long long)c->n, "sum", c->sum, "min", c->min,
                                        "max", c->max, "sum_of_squares", c->sum_of_squares)
                        : NULL;
    if (!row || PyList_Append(to->counters, row))
        Py_CLEAR(to->counters);
    Py_XDECREF(row);
}

static void take_metadata(void *arg, const char *name, const char *value)
{
    struct values *to = arg;
    PyObject *key = to->metadata ? text_of(name) : NULL, *text = key ? text_of(value) : NULL;
    if (!text || PyDict_SetItem(to->metadata, key, text))
        Py_CLEAR(to->metadata);
    Py_XDECREF(key);
    Py_XDECREF(text);
}

PyObject *native_summary(uint32_t generation, struct native_region_losses losses,
                         const struct exact *x)
{
    struct values taken = {PyList_New(0), PyDict_New()};
    native_region_values(generation,
                         &(struct pyhybrid_values){take_counter, take_metadata, &taken});
    if (!taken.counters || !taken.metadata) {
        Py_XDECREF(taken.counters);
        Py_XDECREF(taken.metadata);
        return NULL;
    }
    PyObject *collections = PyList_New(0);
    for (int i = 0; collections && x && i < EXACT_GENERATIONS; i++) {
        PyObject *row =
            Py_BuildValue("KK", (unsigned long long)x->collections[i].n,
                          (unsigned long long)exact_ticks_to_ns(x, x->collections[i].ticks));
        if (!row || PyList_Append(collections, row))
            PyErr_Clear();
        Py_XDECREF(row);
    }
    return Py_BuildValue("{sKsKsLsOsNsNsN}", "unplaced_regions",
                         (unsigned long long)losses.n_unplaced, "unmatched_regions",
                         (unsigned long long)losses.n_unmatched, "counting_more_ns",
                         x ? (long long)instrument_more_ns(x) : 0, "other_tools",
                         monitoring_has_others() ? Py_True : Py_False, "counters", taken.counters,
                         "metadata", taken.metadata, "collections", collections);
}
