/* garbage.c - the interpreter's garbage collections, each with the function that it happened in.
 *
 * While calls are counted, `gc.callbacks` has a function of ours.  Those that take long are kept by themselves, among the
 * calls of watched functions (watched_calls.h); what counts as long is doubled with every so many, so that there is
 * room for those of a long run.  Of all there are sums.
 *
 * Source: CPython Doc/library/gc.rst, gc.callbacks.
 *
 * Context: with the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "clock.h"
#include "function_figures.h"
#include "instrument.h"
#include "watched_calls.h"

#define LONG_NS 5000u
#define MANY                                                                                       \
    2048u /* of which each lasted LONG_NS; of the next so many each lasts twice as long... */
#define MOST (10 * MANY)

static __thread struct {
    uint64_t since, cpu_ns;
    uint32_t session;
} begun;

/* It runs on top of what the shadow stack has. */
static void keep(struct exact *x, struct exact_thread *t, uint32_t kind, uint64_t now)
{
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!top || x->n_collections >= MOST ||
        exact_ticks_to_ns(x, now - begun.since) < (uint64_t)LONG_NS << x->n_collections / MANY)
        return;
    struct watched_call call = {.since = begun.since,
                                .until = now,
                                .cpu_since_ns = begun.cpu_ns,
                                .cpu_until_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID),
                                .node = top->node->id,
                                .how = kind};
    if (top->flags & EXACT_IN_C)
        call.node = t->c_calls[t->depth - 1].node->id;
    x->n_collections += call.node && watched_add(&t->watched, &call);
}

/* -1: it has none. */
static long number_of(PyObject *info, const char *key)
{
    PyObject *number = PyDict_Check(info) ? PyDict_GetItemString(info, key) : NULL;
    return number && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
}

static void end(struct exact *x, PyObject *info)
{
    long generation = number_of(info, "generation"), freed = number_of(info, "collected");
    uint64_t now = exact_ticks(x);
    if (generation < 0 || generation >= EXACT_GENERATIONS)
        return;
    x->collections[generation].n++;
    x->collections[generation].ticks += now - begun.since;
    uint32_t n = freed < 0 ? 0 : freed < WATCHED_FREED_MOST ? (uint32_t)freed : WATCHED_FREED_MOST;
    if (exact_this_thread.generation == x->generation)
        keep(x, exact_this_thread.thread,
             (WATCHED_COLLECTION + (uint32_t)generation) | n << WATCHED_FREED, now);
}

static PyObject *on_collection(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x || n != 2 || !PyUnicode_Check(args[0])) {
        begun.session = 0;
        Py_RETURN_NONE;
    }
    if (PyUnicode_CompareWithASCIIString(args[0], "start")) {
        if (begun.session == x->generation)
            end(x, args[1]);
        begun.session = 0;
    } else {
        begun.session = x->generation;
        begun.since = exact_ticks(x);
        begun.cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    Py_RETURN_NONE;
}

static PyMethodDef definition = {"pyhybrid_on_collection",
                                 (PyCFunction)(void (*)(void))on_collection, METH_FASTCALL, NULL};
static PyObject *callback; /* also that which a forked child has inherited */

static PyObject *callbacks(void)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *list = gc ? PyObject_GetAttrString(gc, "callbacks") : NULL;
    Py_XDECREF(gc);
    if (list && !PyList_CheckExact(list))
        Py_CLEAR(list);
    return list;
}

void garbage_start(void)
{
    if (!callback)
        callback = PyCFunction_New(&definition, NULL);
    PyObject *list = callback ? callbacks() : NULL;
    if (list && !PySequence_Contains(list, callback))
        PyList_Append(list, callback);
    Py_XDECREF(list);
    PyErr_Clear();
}

void garbage_stop(void)
{
    PyObject *list = callback ? callbacks() : NULL;
    Py_ssize_t at = list ? PySequence_Index(list, callback) : -1;
    if (at >= 0)
        PySequence_DelItem(list, at);
    Py_XDECREF(list);
    PyErr_Clear();
}
