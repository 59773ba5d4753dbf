/* c_call_stack.c - C functions that Python functions wait for: beside the shadow stack, since Python
 * functions that they call back look there for their Python caller.
 *
 * Context: callbacks of sys.monitoring: with the GIL.
 */
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "shadow.h"

void c_call_ends(struct exact_thread *t, uint32_t i, uint64_t now)
{
    const struct exact_c_call *c = &t->c_calls[i];
    if (now > c->since)
        count(&c->node->total_ticks, now - c->since);
    exact_set_flags(&t->stack[i], t->stack[i].flags & ~(uint64_t)EXACT_IN_C);
}

/* By the function on top.  The last call at this depth often was the same.  Below the tree's bound, where
 * nodes stand for several functions, it is not timed. */
static ALWAYS_INLINE void begin_c_call(struct exact *x, struct exact_thread *t, uint64_t word)
{
    struct exact_frame *top = &t->stack[t->depth - 1];
    struct exact_c_call *c = &t->c_calls[t->depth - 1];
    if (top->flags & EXACT_IN_C)
        c_call_ends(t, t->depth - 1, exact_ticks(x));
    struct exact_node *node = c->node;
    if (!node || node->word != word || node->parent != top->node->id)
        node = exact_child(x, t, top->node, word);
    count(&node->calls, 1);
    if (node == top->node || !(top->flags & EXACT_RECORDED))
        return;
    *c = (struct exact_c_call){node, exact_ticks(x)};
    exact_set_flags(top, top->flags | EXACT_IN_C);
}

bool c_call_begins(uint64_t code, uint64_t function)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = counted_frame(x, code);
    if (!f || (!function && x->all_events))
        return true;
    shadow_enter();
    if (!LIKELY(x->all_events) && shadow_left_out(x, f)) {
        shadow_leave();
        return false;
    }
    struct exact_thread *t = function ? shadow_record(x) : NULL;
    if (LIKELY(t)) {
        struct exact_frame *top = &t->stack[t->depth - 1];
        if (!LIKELY(t->depth && top->frame == (uint64_t)f && top->flags & EXACT_RECORDED))
            top = shadow_on_top(x, t, f);
        if (LIKELY(top && top->frame == (uint64_t)f))
            begin_c_call(x, t, frame_c_call(frame_native(function)));
    }
    shadow_leave();
    return true;
}

void c_call_returns(uint64_t code, bool raised)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    const frame_t *f = counted_frame(x, code);
    if (!f || exact_this_thread.generation != x->generation)
        return;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    struct exact_thread *t = exact_this_thread.thread;
    uint32_t depth = t->depth;
    /* Those left out by a filter, whose ends are not seen; regions that it pushed. */
    while (depth && (t->stack[depth - 1].frame != (uint64_t)f ||
                     (t->stack[depth - 1].flags & (EXACT_NATIVE | EXACT_IN_C)) == EXACT_NATIVE))
        depth--;
    if (depth && t->stack[depth - 1].flags & EXACT_IN_C) {
        region_take_off(x, t, depth, now);
        if (raised)
            atomic_fetch_add_explicit(&t->c_calls[depth - 1].node->raised, 1, memory_order_relaxed);
        c_call_ends(t, depth - 1, now);
        if (t->n_moving)
            region_put_back(x, t, now);
        region_end_left(x, t, now);
    }
    shadow_leave();
}
