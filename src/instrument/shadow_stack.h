/* shadow_stack.h - the shadow stack, for those who push and pop: functions (shadow.c), regions, lines, C
 * calls.  Private to src/instrument/.
 *
 * Context: callbacks of sys.monitoring: with the GIL, between shadow_enter and shadow_leave.
 */
#ifndef PYH_SHADOW_STACK_H
#define PYH_SHADOW_STACK_H

#include "current_frame.h"

#include "compiler.h"
#include "call_tree.h"
#include "instrument.h"
#include "tasks.h"
#include "turns.h"

/* Between the two the handler does not trust the stack. */
static inline void shadow_enter(void)
{
    atomic_store_explicit(&exact_this_thread.busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void shadow_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&exact_this_thread.busy, 0, memory_order_relaxed);
}

/* Returns whether `f` is called, by whatever way, by an opaque function (filter.h): until that ends nothing else runs
 * on its thread, greenlets aside. */
static inline bool is_hidden(const struct exact_thread *t, const frame_t *f)
{
    return t->opaque && t->opaque != (uint64_t)f;
}

/* Returns the innermost frame, if `code` runs in it, so that an event of `code` counts.  NULL: it does not. */
static inline const frame_t *counted_frame(const struct exact *x, uint64_t code)
{
    if (!LIKELY(x)) {
        instrument_idle_event();
        return NULL;
    }
    const frame_t *f = frame_of_code(current_frame(), code);
    bool is_known = exact_this_thread.generation == x->generation;
    return LIKELY(!is_known || !is_hidden(exact_this_thread.thread, f)) ? f : NULL;
}

struct exact_thread *shadow_new_record(struct exact *x);

/* Returns the calling thread's record; NULL: no memory. */
static inline struct exact_thread *shadow_record(struct exact *x)
{
    return LIKELY(exact_this_thread.generation == x->generation) ? exact_this_thread.thread
                                                                 : shadow_new_record(x);
}

/* Adds to a counter that only one thread writes at a time. */
static inline void count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Pops a frame that is in the midst of nothing. */
static ALWAYS_INLINE void pop(struct exact *x, struct exact_thread *t, uint64_t now,
                              enum ending how)
{
    const struct exact_frame *f = &t->stack[t->depth - 1];
    if (f->flags & EXACT_RECORDED && now > f->since)
        count(&f->node->total_ticks, now - f->since);
    if (!LIKELY(!x->turns && !(f->flags & EXACT_KEPT)) && f->flags & EXACT_RECORDED)
        turns_end(x, t, f, now, how);
    if (!LIKELY(!(f->flags & (EXACT_OPAQUE | EXACT_TASK)))) {
        if (f->flags & EXACT_OPAQUE)
            t->opaque = 0;
        if (f->flags & EXACT_TASK)
            tasks_end_turn(t, now);
    }
    exact_set_depth(t, t->depth - 1);
}

/* Pops any frame. */
void shadow_drop(struct exact *x, struct exact_thread *t, uint64_t now, enum ending how);

/* Returns whether the shadow stack's frame `i` is the live frame `f`.  Its end was seen if it is recorded; else
 * another one may have taken its place in memory, so its callers are compared, too. */
bool shadow_is_same(const struct exact *x, const struct exact_thread *t, uint32_t i,
                    const frame_t *f);

/* Makes the stack that of `first` and its callers.  Returns false, with an empty stack, if they are the launcher's
 * (launcher.h). */
bool shadow_mend_to(struct exact *x, struct exact_thread *t, const frame_t *first, uint64_t now);

/* Does the same if it is not so already, with `f` as a caller: what it calls next would find it on top.  Returns
 * the top, or NULL: no memory, or it is the launcher's, or an opaque function called it. */
struct exact_frame *shadow_on_top(struct exact *x, struct exact_thread *t, const frame_t *f);

/* Returns whether a filter leaves out the function that runs in `f`: then its events at this place can be switched
 * off. */
bool shadow_left_out(struct exact *x, const frame_t *f);

#endif
