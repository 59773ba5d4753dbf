/* callers.h - on which instruction the functions are that the shadow stack has below a sample's words.
 *
 * A sample's walk ends with the innermost function that the exact half knows to run; those further out are the path of
 * its node, and where in their code each of them waits is noted here.  As long as a function runs, none of its callers
 * moves on: so from the top outward only those are read that were not there when the last sample was taken, and only
 * these are told to the drain.
 *
 * Context: async-signal-safe, on the thread whose stack it is.  Private to src/sampler/.
 */
#ifndef PYH_CALLERS_H
#define PYH_CALLERS_H

#include "call_tree.h"
#include "thread.h"

/* How many places lie below `top`, a frame of the calling thread's shadow stack; 0: none, or more than are noted. */
static inline uint32_t callers_of(const struct callers *c, const struct exact_frame *top)
{
    size_t n = (size_t)(top - exact_mine.thread->stack);
    return n <= c->max ? (uint32_t)n : 0;
}

/* Notes where those below `top` are, which runs and whose frame this sample's walk has met.  `u`: with the stack's
 * bounds. */
void callers_note(struct callers *c, const struct unwind *u, const struct exact *x,
                  const struct exact_frame *top);

#endif
