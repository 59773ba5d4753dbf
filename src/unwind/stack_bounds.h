/* stack_bounds.h - which part of the calling thread's stack can be read without a fault.
 *
 * Context: async-signal-safe.
 */
#ifndef PYH_STACK_BOUNDS_H
#define PYH_STACK_BOUNDS_H

#include "unwind.h"

/* Proves [page of sp, end of the thread's stack) readable, and notes it in `u`: once per page, since a
 * stack's pages stay while its thread lives.  On another stack than the thread's own (a fiber's, an
 * alternate one) a little of it, and that each time: what lies above such a stack may be unmapped.
 * `main_stack_high`: the end of the main thread's stack. */
void stack_bounds_update(struct unwind *u, uint64_t sp, uint64_t main_stack_high);

#endif
