#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "turns.h"

#include "shadow.h"
#include "compiler.h"
#include "emit.h"
#include "filter.h"
#include "instrument.h"
#include "backward_work.h"
#include "makers.h"
#include "value_text.h"
#include <string.h>

/* The arguments of a call that begins, where they are wanted, go with the serial of `call`, which is one from then on. */
static uint32_t note_arguments(struct exact *x, struct exact_thread *t, const struct exact_frame *s,
                               uint32_t call)
{
    const frame_t *f = (const frame_t *)s->frame;
    unsigned char fields[REGION_ATTRIBUTES_MAX];
    if (!filter_has_arguments(x, FRAME_CODE(f), f->f_globals) || open_calls_is_full(&x->open))
        return call;
    size_t n = call_arguments((PyCodeObject *)FRAME_CODE(f), fields);
    if (n && !call)
        call = open_calls_begin(&x->open, s->since, false);
    if (n && call)
        calls_attributes(&t->calls, &x->open, x->open.call[call].serial, fields, (uint32_t)n);
    return call;
}

/* Do sinks alone get it (or, at its end, is it a turn whose call is not kept)? */
static ALWAYS_INLINE bool is_only_emitted(const struct exact *x, const struct exact_frame *f)
{
    uint64_t more = PYH_FUNCTION_KEPT | PYH_FUNCTION_WATCHED;
    return x->turns == TURNS_EMITTED && !(f->flags & (EXACT_REGION | EXACT_KEPT)) &&
           !(f->node->word & more);
}

/* The log is switched on: what runs already, the `depth` outermost ones, goes on. */
static void begin_log(const struct exact *x, struct exact_thread *t, uint32_t depth, uint64_t now)
{
    t->log = x->log;
    event_put(&t->events, EVENT_GAP, 0, now);
    for (uint32_t i = 0; i < depth; i++)
        if (t->stack[i].flags & EXACT_RECORDED)
            event_put(&t->events, EVENT_RESUME, t->stack[i].node->id, now);
}

void turns_log(struct exact *x, bool on)
{
    if (!x->logs_by_window || on == (x->turns & TURNS_LOGGED))
        return;
    x->turns ^= TURNS_LOGGED;
    x->log += on;
    if (on && exact_this_thread.generation == x->generation) /* others begin theirs themselves */
        begin_log(x, exact_this_thread.thread, exact_this_thread.thread->depth, exact_ticks(x));
    backward_log(on);
}

/* The function that called the one at `s` is watched from now on, too, if it is the program's. */
static void begin_rest(struct exact_thread *t, const struct exact_frame *s)
{
    struct exact_frame *f = t->stack + (s - t->stack);
    while (f > t->stack && (--f)->flags & EXACT_REGION)
        ;
    if (f == s || f->flags & (EXACT_REGION | EXACT_REST) || !(f->flags & EXACT_RECORDED) ||
        frame_tag(f->node->word) != PYH_TAG_FUNCTION || exact_is_watched(f->node) ||
        !watch_list_is_programs(FRAME_CODE((const frame_t *)f->frame)))
        return;
    f->flags |= EXACT_REST | EXACT_KEPT;
    watched_begin(&t->watched, (uint32_t)(f - t->stack), s->since, true, makers_next(t));
}

static void end_watched(struct exact *x, struct exact_thread *t, const struct exact_frame *f,
                        uint64_t now, bool raised)
{
    struct watched_call watched = {.until = now, .node = f->node->id, .how = raised};
    if (f->node->word & PYH_FUNCTION_INSIDE ||
        call_inputs_is_model(f->node->word)) /* a step ends, maybe */
        watched.resident_bytes = usage_resident();
    x->n_watched += watched_end(&t->watched, (uint32_t)(f - t->stack), &watched, makers_next(t),
                                x->n_watched < WATCHED_MAX);
}

/* It is turned to from now on.  Returns whether its begin is reported (watch_list_notify). */
static bool begin_watched(struct exact_thread *t, struct exact_frame *s, bool is_new)
{
    uint32_t place = (uint32_t)(s - t->stack);
    watched_begin(&t->watched, place, s->since, is_new, makers_next(t));
    if (is_new)
        watched_note(&t->watched, place, call_inputs_elements(s));
    s->flags |= EXACT_KEPT;
    if (is_new && watch_list_has_rest(s->node->word))
        begin_rest(t, s);
    return is_new && watch_list_begins(s->node->word);
}

static __attribute__((noinline)) bool note_begin(struct exact *x, struct exact_thread *t,
                                                 struct exact_frame *s, bool is_new)
{
    if (x->turns & TURNS_EMITTED && !t->without_gil && !exact_is_fired(s))
        emit_begin(t, s, is_new);
    if (x->turns & TURNS_LOGGED) {
        if (t->log != x->log)
            begin_log(x, t, (uint32_t)(s - t->stack), s->since);
        event_put(&t->events, is_new ? EVENT_CALL : EVENT_RESUME, s->node->id, s->since);
    }
    if (s->flags & EXACT_REGION)
        return false;
    bool notifies = exact_is_watched(s->node) && begin_watched(t, s, is_new);
    if (!exact_is_kept(s->node))
        return notifies;
    uint32_t call = 0;
    if (is_generator((const PyCodeObject *)FRAME_CODE((const frame_t *)s->frame))) {
        call = open_calls_resume(&x->open, s->frame);
        if (call && is_new) /* of one that was at this address, and was dropped */
            open_calls_end(&x->open, call);
        if (!call || is_new)
            call = open_calls_begin(&x->open, s->since, !is_new);
    } else if (!is_new) { /* it ran before profiling did */
        call = open_calls_begin(&x->open, s->since, true);
    }
    if (is_new)
        call = note_arguments(x, t, s, call);
    s->flags |= EXACT_KEPT | (uint64_t)call << EXACT_CALL_SHIFT;
    const frame_t *f = (const frame_t *)s->frame;
    if (is_new && filter_is_opaque(x, FRAME_CODE(f), f->f_globals)) {
        s->flags |= EXACT_OPAQUE;
        t->opaque = s->frame;
    }
    uint32_t kinds = x->usage_by_name ? filter_usage(x, FRAME_CODE(f), f->f_globals) : 0;
    if (x->usage | kinds)
        usage_begin(t, s, x->usage | kinds);
    return notifies;
}

bool turns_begin(struct exact *x, struct exact_thread *t, struct exact_frame *s, bool is_new)
{
    if (!(s->flags & EXACT_RECORDED)) /* below the tree's bound: its end is not noted either */
        return false;
    if (!LIKELY(is_only_emitted(x, s)))
        return note_begin(x, t, s, is_new);
    if (!t->without_gil)
        emit_begin(t, s, is_new);
    return false;
}

static const enum emit_kind emitted[] = {EMIT_RETURN, EMIT_YIELD, EMIT_UNWIND, EMIT_CUT_OFF};

static __attribute__((noinline)) void note_end(struct exact *x, struct exact_thread *t,
                                               const struct exact_frame *f, uint64_t now,
                                               enum ending how)
{
    static const enum event_kind kind[] = {EVENT_RETURN, EVENT_YIELD, EVENT_RAISE, EVENT_RETURN};
    uint32_t call = (uint32_t)(f->flags >> EXACT_CALL_SHIFT);
    if (f->flags & EXACT_REGION && !(f->flags & EXACT_LEFT) && how != CUT_OFF)
        how = YIELDED; /* it is where its function is */
    if (x->turns & TURNS_EMITTED && !t->without_gil && !exact_is_fired(f))
        emit_end(t, f, emitted[how]);
    if (x->turns & TURNS_LOGGED) {
        if (t->log != x->log)
            begin_log(x, t, (uint32_t)(f - t->stack) + 1, now);
        event_put(&t->events, kind[how], f->node->id, now);
    }
    if (!(f->flags & EXACT_KEPT))
        return;
    if ((exact_is_watched(f->node) || f->flags & EXACT_REST) && how != CUT_OFF)
        end_watched(x, t, f, now, how == RAISED);
    if (!exact_is_kept(f->node) && !(f->flags & EXACT_REGION))
        return;
    bool ended = how != YIELDED;
    struct call_turn turn = {.since = f->since, .until = now, .node = f->node->id};
    turn.flags = (ended ? CALL_ENDED : 0) | (how == RAISED ? CALL_RAISED : 0) |
                 (how == CUT_OFF ? CALL_PARTIAL : 0);
    struct call_usage used;
    const struct call_usage *usage = f->flags & EXACT_USAGE ? usage_end(t, f, &used) : NULL;
    t->kept = calls_turn(&t->calls, &x->open, call, &turn, usage) ? turn.serial : 0;
    if (call && !(f->flags & EXACT_REGION)) {
        if (ended)
            open_calls_end(&x->open, call);
        else
            open_calls_suspend(&x->open, call, f->frame);
    }
}

void turns_end(struct exact *x, struct exact_thread *t, const struct exact_frame *f, uint64_t now,
               enum ending how)
{
    if (!LIKELY(is_only_emitted(x, f)))
        note_end(x, t, f, now, how);
    else if (!t->without_gil)
        emit_end(t, f, emitted[how]);
}

/* --- call arguments ---------------------------------------------------------------------------- */

/* A call's arguments as the spool has them, like a region's attributes (region_attributes.c).
 *
 * Context: with the GIL, where the call begins.  Nothing of the program runs: values are recorded by their exact types
 * (value_text.h).
 */

#define ROOM_FOR_MORE 32 /* bytes: a field that shows that there are more */

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
