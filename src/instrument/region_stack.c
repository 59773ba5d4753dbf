#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "region_stack.h"

#include "c_call_stack.h"
#include "regions.h"

static struct exact_frame *push_region(struct exact *x, struct exact_thread *t,
                                       struct region_slot *slot, uint64_t since, bool is_new)
{
    if (t->depth == t->capacity && !exact_grow_stack(t))
        return NULL;
    const struct exact_frame *below = &t->stack[t->depth - 1];
    struct exact_frame *s = &t->stack[t->depth];
    struct exact_node *node = exact_child(x, t, below->node, slot->word);
    *s = *below;
    s->node = node;
    s->since = since;
    if (slot->generation != x->generation) {
        slot->call = open_calls_begin(&x->open, s->since, !is_new);
        slot->generation = x->generation;
    }
    s->flags = EXACT_REGION | EXACT_KEPT | (uint64_t)slot->call << EXACT_CALL_SHIFT |
               (node != below->node ? EXACT_RECORDED : 0);
    if (x->turns)
        turns_begin(x, t, s, is_new);
    exact_set_depth(t, t->depth + 1);
    return s;
}

/* The region in slot `i`, if it is one of `f`; NULL: it is not, or there is no memory. */
static struct exact_frame *push_of(struct exact *x, struct exact_thread *t, const frame_t *f,
                                   uint32_t i, uint64_t since)
{
    struct region_slot *slot = &regions_mine->slots[i];
    return region_is_of(slot, (uint64_t)f, FRAME_CODE(f)) ? push_region(x, t, slot, since, false)
                                                          : NULL;
}

void region_resume(struct exact *x, struct exact_thread *t, const frame_t *f)
{
    for (uint32_t i = 0; i < regions_mine->n; i++) {
        struct exact_frame *s = push_of(x, t, f, i, exact_ticks(x));
        if (s)
            count(&s->node->resumes, 1);
    }
}

void region_seed(struct exact *x, struct exact_thread *t, const frame_t *f, bool linked)
{
    for (uint32_t i = 0; regions_mine && i < regions_mine->n; i++) {
        /* Since its function was: what that calls may have been found running since the same moment. */
        struct exact_frame *s = push_of(x, t, f, i, t->stack[t->depth - 1].since);
        if (s && linked) {
            s->flags |= EXACT_LINKED;
            count(&s->node->resumes, 1);
        } else if (s) {
            atomic_fetch_add_explicit(&s->node->seeded, 1, memory_order_relaxed);
        }
    }
}

void region_forget(struct exact *x, const frame_t *f)
{
    for (uint32_t i = 0; i < regions_mine->n; i++) {
        struct region_slot *slot = &regions_mine->slots[i];
        if (!region_is_of(slot, (uint64_t)f, FRAME_CODE(f)))
            continue;
        if (slot->generation == x->generation)
            open_calls_end(&x->open, slot->call);
        slot->frame = 0;
    }
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
    if (!x || exact_mine.generation != x->generation)
        return 0;
    uint64_t now = exact_ticks(x);
    shadow_enter();
    struct exact_thread *t = exact_mine.thread;
    t->kept = 0;
    for (uint32_t i = t->depth; i--;) {
        struct exact_frame *s = &t->stack[i];
        if (s->frame != slot->frame || !(s->flags & EXACT_REGION) || s->node->word != slot->word)
            continue;
        s->flags |= EXACT_LEFT;
        while (t->depth > i)
            shadow_drop(x, t, now, RETURNED);
        break;
    }
    if (slot->generation == x->generation)
        open_calls_end(&x->open, slot->call);
    shadow_leave();
    return t->kept;
}

void region_note_attributes(uint32_t serial, const char *text, uint32_t length)
{
    const struct exact *x = atomic_load_explicit(&exact_current, memory_order_relaxed);
    if (x && exact_mine.generation == x->generation)
        calls_attributes(&exact_mine.thread->calls, serial, text, length);
}
