/* emit_callbacks.c - the callbacks of sys.monitoring while a sink (sink.h) wants their events: they notify it, and count as
 * the others do (shadow.h, c_calls.c, lines.c).
 *
 * Context: with the GIL.  They never raise.
 */
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "instrument.h"

#include "emit.h"
#include "filter.h"
#include "shadow.h"

/* Of what a filter leaves out sinks get nothing, and its values are not looked at. */
static PyObject *turn(enum emit_kind kind, PyObject *const *args, vectorcallfunc then)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = x ? frame_of_code(current_frame(), (uint64_t)args[0]) : NULL;
    if (!f || (!x->all_events && shadow_left_out(x, f)))
        return then(NULL, args, 0, NULL);
    return emit_event(kind, (uint64_t)f, args, then);
}

#define TURN(name, kind)                                                                           \
    PyObject *emitted_on_##name(PyObject *self, PyObject *const *args, size_t n, PyObject *names)  \
    {                                                                                              \
        (void)self;                                                                                \
        (void)n;                                                                                   \
        (void)names;                                                                               \
        return turn(kind, args, shadow_on_##name);                                                 \
    }
TURN(start, EMIT_START)
TURN(resume, EMIT_RESUME)
TURN(throw, EMIT_THROW)
TURN(return, EMIT_RETURN)
TURN(yield, EMIT_YIELD)
TURN(unwind, EMIT_UNWIND)

/* False: a filter leaves the function out. */
static bool point(enum emit_kind kind, PyObject *const *args)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    uint64_t code = (uint64_t)args[0];
    const frame_t *f = counted_frame(x, code);
    if (!f || (filter_has_own() && filter_is_own(code)))
        return true;
    shadow_enter();
    bool chosen = x->all_events || !shadow_left_out(x, f);
    struct exact_thread *t = chosen ? shadow_record(x) : NULL;
    if (t)
        emit_point(x, t, (uint64_t)f, kind, args);
    shadow_leave();
    emit_make_room();
    return chosen;
}

PyObject *emitted_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    bool chosen = point(EMIT_CALL, args);
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (x && x->c_calls)
        return c_calls_on_call(self, args, n, names);
    return Py_NewRef(chosen ? Py_None : shadow_disable);
}

PyObject *emitted_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    bool chosen = point(EMIT_LINE, args);
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (x && x->lines && chosen)
        return lines_on_line(self, args, n, names);
    return Py_NewRef(chosen ? Py_None : shadow_disable);
}

void emitted_message(const char *text)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return;
    shadow_enter();
    struct exact_thread *t = shadow_record(x);
    if (t)
        emit_message(t, text);
    shadow_leave();
    emit_make_room();
}
