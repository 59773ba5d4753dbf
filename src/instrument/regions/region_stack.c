/* region_stack.c - named regions in the shadow stack: each stands on top of the frame that has entered it.
 *
 * Native code's regions are the thread's: where the functions that they stand on end, they move to the one that called
 * those, or to the thread's root; where functions stand on one that was popped, it ends when they do.
 *
 * Context: the thread itself; with the GIL, unless otherwise stated.
 */
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "region_stack.h"

#include "filter.h"
#include "shadow.h"
#include "regions.h"
#include "instrument.h"

/* What `slot` is in the stack, besides what it has of its node.  Of a native one's single call nothing is known beyond its
 * turn: it is kept if that is all of it. */
static uint64_t flags_of(struct exact *x, struct region_slot *slot, uint64_t since, bool is_new)
{
    bool is_first = slot->generation != x->generation;
    slot->generation = x->generation;
    if (slot->is_native) {
        slot->call = is_new;
        return EXACT_REGION | EXACT_NATIVE | (is_new ? EXACT_KEPT : 0);
    }
    if (is_first)
        slot->call = open_calls_begin(&x->open, since, !is_new);
    return EXACT_REGION | EXACT_KEPT | (uint64_t)slot->call << EXACT_CALL_SHIFT;
}

static struct exact_frame *push_region(struct exact *x, struct exact_thread *t,
                                       struct region_slot *slot, uint64_t since, bool is_new)
{
    if (t->depth == t->capacity && !exact_grow_stack(t))
        return NULL;
    const struct exact_frame *below = t->depth ? &t->stack[t->depth - 1] : NULL;
    struct exact_frame *s = &t->stack[t->depth];
    struct exact_node *parent = below ? below->node : &t->root;
    if (below && below->flags & EXACT_IN_C)
        parent = t->c_calls[t->depth - 1].node;
    struct exact_node *node = exact_child(x, t, parent, slot->word);
    s->frame = slot->frame;
    s->entry = below ? below->entry : 0;
    s->node = node;
    s->since = since;
    s->flags = flags_of(x, slot, since, is_new) | (node != parent ? EXACT_RECORDED : 0);
    if (x->turns)
        turns_begin(x, t, s, is_new);
    if (x->usage && s->flags & EXACT_KEPT)
        usage_begin(t, s, x->usage);
    exact_set_depth(t, t->depth + 1);
    return s;
}

/* The region in slot `i`, if it is one of `f`; NULL: it is not, or there is no memory. */
static struct exact_frame *push_of(struct exact *x, struct exact_thread *t, const frame_t *f,
                                   uint32_t i, uint64_t since)
{
    struct region_slot *slot = &regions_this_thread->slots[i];
    return region_is_of(slot, (uint64_t)f, FRAME_CODE(f)) ? push_region(x, t, slot, since, false)
                                                          : NULL;
}

void region_resume(struct exact *x, struct exact_thread *t, const frame_t *f)
{
    for (uint32_t i = 0; i < regions_this_thread->n; i++) {
        struct exact_frame *s = push_of(x, t, f, i, exact_ticks(x));
        if (s)
            count(&s->node->resumes, 1);
    }
}

void region_seed(struct exact *x, struct exact_thread *t, const frame_t *f, bool linked)
{
    for (uint32_t i = 0; regions_this_thread && i < regions_this_thread->n; i++) {
        /* Since its function was: what that calls may have been found running since the same moment. */
        struct exact_frame *s = push_of(x, t, f, i, t->stack[t->depth - 1].since);
        if (s && linked && !(s->flags & EXACT_NATIVE)) {
            s->flags |= EXACT_LINKED;
            count(&s->node->resumes, 1);
        } else if (s) {
            atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
        }
    }
}

void region_forget(struct exact *x, const frame_t *f)
{
    for (uint32_t i = 0; i < regions_this_thread->n; i++) {
        struct region_slot *slot = &regions_this_thread->slots[i];
        if (slot->is_native || !region_is_of(slot, (uint64_t)f, FRAME_CODE(f)))
            continue;
        if (slot->generation == x->generation)
            open_calls_end(&x->open, slot->call);
        slot->frame = 0;
    }
}

/* --- those of native code move ---------------------------------------------------------------------- */

/* The stack's top, a native region, goes elsewhere: it was never here. */
static void withdraw(struct exact *x, struct exact_thread *t, uint64_t now)
{
    struct exact_frame *s = &t->stack[t->depth - 1];
    if (s->flags & EXACT_KEPT)
        count(&s->node->calls, (uint64_t)-1);
    else
        atomic_fetch_sub_explicit(&s->node->seeded, 1, memory_order_relaxed);
    s->since = now;
    s->flags = (s->flags & ~(uint64_t)EXACT_KEPT) | EXACT_LEFT;
    shadow_drop(x, t, now, RETURNED);
    t->n_moving++;
}

void region_take_off(struct exact *x, struct exact_thread *t, uint32_t depth, uint64_t now)
{
    while (t->depth > depth)
        if ((t->stack[t->depth - 1].flags & (EXACT_NATIVE | EXACT_LEFT)) == EXACT_NATIVE)
            withdraw(x, t, now);
        else
            shadow_drop(x, t, now, RETURNED);
}

static bool is_placed(const struct exact *x, const struct region_slot *slot)
{
    return slot->is_native && slot->frame && slot->generation == x->generation;
}

/* The innermost `n_moving` ones of the list are those that were taken off. */
void region_put_back(struct exact *x, struct exact_thread *t, uint64_t now)
{
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    uint64_t frame = top ? top->frame : REGION_OF_THREAD;
    uint32_t left = t->n_moving, i = regions_this_thread ? regions_this_thread->n : 0;
    t->n_moving = 0;
    while (left && i)
        left -= is_placed(x, &regions_this_thread->slots[--i]);
    for (; regions_this_thread && i < regions_this_thread->n; i++) {
        struct region_slot *slot = &regions_this_thread->slots[i];
        if (!is_placed(x, slot))
            continue;
        slot->frame = frame;
        slot->code = frame == REGION_OF_THREAD ? 0 : FRAME_CODE((const frame_t *)frame);
        struct exact_frame *s = push_region(x, t, slot, now, slot->call);
        if (s && slot->call)
            count(&s->node->calls, 1);
        else if (s)
            atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
    }
}

void region_end_left(struct exact *x, struct exact_thread *t, uint64_t now)
{
    while (t->depth && (t->stack[t->depth - 1].flags & (EXACT_LEFT | EXACT_IN_C)) == EXACT_LEFT)
        shadow_drop(x, t, now, RETURNED);
}

/* --- they begin and end ------------------------------------------------------------------------------ */

/* Is the stack that of `f` (NULL: no Python function runs)?  With the GIL, it is made so. */
static bool is_at(struct exact *x, struct exact_thread *t, const frame_t *f)
{
    const struct exact_frame *top = t->depth ? &t->stack[t->depth - 1] : NULL;
    if (!f && (!top || top->frame == REGION_OF_THREAD))
        return true;
    if (f && !t->without_gil)
        return shadow_on_top(x, t, f);
    if (f)
        return top && top->frame == (uint64_t)f && shadow_is_same(x, t, t->depth - 1, f);
    return !t->without_gil && shadow_mend_to(x, t, NULL, exact_ticks(x));
}

bool region_push_native(struct exact *x, const frame_t *f, struct region_slot *slot, bool has_gil)
{
    struct exact_frame *s = NULL;
    shadow_enter();
    struct exact_thread *t = NULL;
    if (exact_this_thread.generation == x->generation)
        t = exact_this_thread.thread;
    else if (has_gil)
        t = shadow_new_record(x);
    else if (!f)
        t = exact_add_thread(x, "");
    if (t) {
        t->without_gil = !has_gil;
        if (is_at(x, t, f) && (s = push_region(x, t, slot, exact_ticks(x), true)))
            count(&s->node->calls, 1);
        t->without_gil = false;
    }
    shadow_leave();
    return s;
}

void region_pop_native(struct exact *x, uint64_t word, bool has_gil)
{
    if (exact_this_thread.generation != x->generation)
        return;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    struct exact_thread *t = exact_this_thread.thread;
    uint32_t i = t->depth;
    while (i && (t->stack[i - 1].node->word != word ||
                 (t->stack[i - 1].flags & (EXACT_NATIVE | EXACT_LEFT)) != EXACT_NATIVE))
        i--;
    t->without_gil = !has_gil;
    for (i = i ? i - 1 : t->depth; i < t->depth; i++)
        if (t->stack[i].flags & EXACT_NATIVE)
            exact_set_flags(&t->stack[i], t->stack[i].flags | EXACT_LEFT);
    region_end_left(x, t, now);
    t->without_gil = false;
    shadow_leave();
}

void region_push_fired(struct exact *x, struct exact_thread *t, const frame_t *f, uint64_t code,
                       bool is_call)
{
    PyObject *globals = f ? f->f_globals : NULL;
    if ((!x->all_events && !filter_selects(x, code, globals)) || !is_at(x, t, f) ||
        (t->depth == t->capacity && !exact_grow_stack(t)))
        return;
    const struct exact_frame *below = t->depth ? &t->stack[t->depth - 1] : NULL;
    struct exact_node *parent = below ? below->node : &t->root;
    if (below && below->flags & EXACT_IN_C)
        parent = t->c_calls[t->depth - 1].node;
    struct exact_node *node = exact_python_child(x, t, parent, code, (uint64_t)globals);
    struct exact_frame *s = &t->stack[t->depth];
    *s = (struct exact_frame){.frame = f ? (uint64_t)f : REGION_OF_THREAD,
                              .entry = below ? below->entry : 0,
                              .node = node};
    s->flags = EXACT_REGION | (node != parent && !exact_is_own(node) ? EXACT_RECORDED : 0);
    if (s->flags & EXACT_RECORDED)
        count(is_call ? &node->calls : &node->resumes, 1);
    s->since = exact_ticks(x);
    if (x->turns)
        turns_begin(x, t, s, is_call);
    exact_set_depth(t, t->depth + 1);
}

void region_pop_fired(struct exact *x, struct exact_thread *t, uint64_t code, enum ending how,
                      uint64_t now)
{
    uint32_t i = t->depth;
    while (i && !(exact_is_fired(&t->stack[i - 1]) && exact_is_of(x, t->stack[i - 1].node, code)))
        i--;
    if (!i)
        return;
    region_take_off(x, t, i, now);
    struct exact_frame *s = &t->stack[i - 1];
    if (how == RAISED && s->flags & EXACT_RECORDED)
        atomic_fetch_add_explicit(&s->node->raised, 1, memory_order_relaxed);
    if (how != YIELDED)
        exact_set_flags(s, s->flags | EXACT_LEFT);
    shadow_drop(x, t, now, how);
    if (t->n_moving)
        region_put_back(x, t, now);
    region_end_left(x, t, now);
}

void region_enter(const frame_t *f, struct region_slot *slot)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x)
        return;
    shadow_enter();
    struct exact_thread *t = shadow_record(x);
    if (t) {
        const struct exact_frame *top = shadow_on_top(x, t, f);
        if (top && top->flags & EXACT_IN_C)
            c_call_ends(t, t->depth - 1, exact_ticks(x)); /* `__enter__`, called by name */
        struct exact_frame *s = top ? push_region(x, t, slot, exact_ticks(x), true) : NULL;
        if (s)
            count(&s->node->calls, 1);
    }
    shadow_leave();
}

uint32_t region_leave(const struct region_slot *slot)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (!x || exact_this_thread.generation != x->generation)
        return 0;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    struct exact_thread *t = exact_this_thread.thread;
    t->kept = 0;
    uint32_t kept = 0;
    for (uint32_t i = t->depth; i--;) {
        struct exact_frame *s = &t->stack[i];
        if (s->frame != slot->frame || !(s->flags & EXACT_REGION) || s->node->word != slot->word)
            continue;
        s->flags |= EXACT_LEFT;
        region_take_off(x, t, i, now);
        kept = t->kept;
        if (t->n_moving)
            region_put_back(x, t, now);
        region_end_left(x, t, now);
        break;
    }
    if (slot->generation == x->generation)
        open_calls_end(&x->open, slot->call);
    shadow_leave();
    return kept;
}

void region_note_attributes(uint32_t serial, const unsigned char *fields, uint32_t length)
{
    struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (x && exact_this_thread.generation == x->generation)
        calls_attributes(&exact_this_thread.thread->calls, &x->open, serial, fields, length);
}
