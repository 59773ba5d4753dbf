/* callers.c - on which instruction the functions are that the shadow stack has below a sample's words.
 *
 * A sample's walk ends with the innermost function that the exact half knows to run; those further out are the path of
 * its node, and where in their code each of them waits is noted here.  As long as a function runs, none of its callers
 * moves on: so from the top outward only those are read that were not there when the last sample was taken, and only
 * these are passed to the drain.
 *
 * Context: async-signal-safe, on the thread whose stack it is.  Private to src/sampler/.
 */
#include "session.h"

#include "frame.h"

/* Where the function at one place of the stack is (struct caller_note); 0: not known, or it is a region's.  What a node
 * calls last is what runs there, so its code object's id stands in the node. */
static uint64_t where(const struct exact *x, struct py_reader *r, const struct exact_frame *f)
{
    struct py_frame read;
    if (f->flags & EXACT_REGION || !pyframe_read(r, f->frame, &read))
        return 0;
    uint64_t function = atomic_load_explicit(&f->node->word, memory_order_relaxed);
    uint64_t id = frame_code_id(function);
    bool is_it = frame_tag(function) == PYH_TAG_FUNCTION && codes_holds(x->codes, id, read.code);
    return is_it ? frame_python(id, read.offset) : 0;
}

/* Is it the activation that was there when this place was noted?  Frames that a filter left out may have ended unseen; while
 * a region lasts its function goes on. */
static bool is_noted(const struct callers *c, uint32_t place, const struct exact_frame *f)
{
    return place < c->n_since && c->place[place].since == f->since &&
           (f->flags & (EXACT_RECORDED | EXACT_REGION)) == EXACT_RECORDED;
}

void callers_note(struct callers *c, const struct unwind *u, const struct exact *x,
                  const struct exact_frame *top)
{
    const struct exact_frame *stack = exact_this_thread.thread->stack;
    uint32_t n = callers_of(c, top), i = n;
    if (c->of != exact_this_thread.thread) {
        c->of = exact_this_thread.thread;
        c->n_since = c->n_known = 0;
    }
    if (!n || is_noted(c, n, top))
        return;
    struct py_reader reader;
    pyframe_read_begin(&reader, u);
    for (; i && !is_noted(c, i, &stack[i]); i--) {
        c->place[i].since = stack[i].since;
        c->place[i - 1].note.node = stack[i - 1].node->id;
        c->place[i - 1].note.at = where(x, &reader, &stack[i - 1]);
    }
    if (c->n_since <= n)
        c->n_since = n + 1;
    if (c->n_known > i)
        c->n_known = i;
}
