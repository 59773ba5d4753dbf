/* join.h - one stack from the two halves: Python frames where their eval loop's frame was.
 *
 * Joined by address only: the native frame whose stack bytes contain an entry frame is the eval
 * loop that executes the run of Python frames before that entry frame.
 *
 * Context: async-signal-safe, a pure function.
 */
#ifndef PYH_JOIN_H
#define PYH_JOIN_H

#include <stddef.h>
#include <stdint.h>

#include "running_backward.h"
#include "pyframe.h"
#include "regions.h"
#include "unwind.h"

struct join_input {
    const struct native_frame *native; /* innermost first */
    size_t n_native;
    enum unwind_end end;
    const struct py_chain *chain;
    const uint64_t *python;        /* frame words of chain->frames */
    const struct regions *regions; /* that the thread is in; NULL: none */
    const struct causes *causes;   /* for what it works; NULL: nothing */
    bool to_root;                  /* with those of the thread itself, outermost */
    const struct py_layout *layout;
};

/* Writes at most `max` frame words (raw, innermost first; at least 1) and returns how many.  What
 * is cut off at the outer end is replaced by [truncated]. */
size_t join_stack(const struct join_input *in, uint64_t *out, size_t max);

#endif
