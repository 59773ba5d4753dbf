/* turns.h - what is noted of single turns of functions and regions: the event log (event_log.h), kept
 * calls (kept_calls.h).
 *
 * Context: callbacks of sys.monitoring: with the GIL.
 */
#ifndef PYH_TURNS_H
#define PYH_TURNS_H

#include <Python.h>

#include "call_tree.h"

enum ending { RETURNED, YIELDED, RAISED, CUT_OFF /* profiling ends, the function does not */ };

static inline bool is_generator(const PyCodeObject *code)
{
    return code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
}

/* Returns whether it is noted that a function's turn with this node begins. */
static inline bool turns_are_noted(const struct exact *x, const struct exact_node *n)
{
    return x->turns || n->word & (PYH_FUNCTION_KEPT | PYH_FUNCTION_WATCHED);
}

/* Switches the event log of a session that has it now and then on or off. */
void turns_log(struct exact *x, bool on);

/* `s` begins; with `is_new`, a call does, not another turn of one.  Returns whether watch_list_notify is to be called,
 * once the callback is done with its thread's record. */
bool turns_begin(struct exact *x, struct exact_thread *t, struct exact_frame *s, bool is_new);

/* `f` ends. */
void turns_end(struct exact *x, struct exact_thread *t, const struct exact_frame *f, uint64_t now,
               enum ending how);

#endif
