/* function_figures.h - how often one function was called so far, and from where: a live look into the call trees, for
 * limits that tests set.
 *
 * Figures of threads that have ended go with them, when the spool has them; while they are held they stay.
 *
 * Context: with the GIL, which keeps all trees as they are.
 */
#ifndef PYH_FUNCTION_FIGURES_H
#define PYH_FUNCTION_FIGURES_H

#include "call_tree.h"

struct function_figures {
    uint64_t caller; /* the word of the nearest Python function above; 0: there is none */
    uint64_t calls;
    uint64_t ticks; /* of activations that have ended, no recursion, callees included */
};

/* Holds threads from now on (`holds`), or no longer: each of the latter calls takes back one of the former. */
void exact_hold_threads(struct exact *x, bool holds);

/* Finds the figures of the function of the code object at `code`, by caller, on all threads together: *n of them, to be
 * freed.  Returns 0 or -ENOMEM; -ENOSPC: the tree has reached its bound, so that calls may be missing. */
int exact_figures_of(struct exact *x, uint64_t code, struct function_figures **figures, size_t *n);

/* Returns so many ticks in nanoseconds. */
uint64_t exact_ticks_to_ns(const struct exact *x, uint64_t ticks);

#endif
