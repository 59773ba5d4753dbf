/* usage.h - what a kept call's thread used meanwhile: CPU time, faults, context switches; and the process's resident memory.
 *
 * getrusage tells context switches as they are, but CPU time as of the kernel's last tick (1 to 10 ms), and the clock that is
 * exact costs twice as much.  So CPU time is that of the thread's clock once, plus the time since, as long as there was no
 * switch.
 *
 * Context: the thread itself, in its callbacks.
 */
#ifndef PYH_USAGE_H
#define PYH_USAGE_H

#include "call_tree.h"

/* From now on the calls of `x` that are kept have `kinds` (enum usage_kinds), and those of some functions have `by_name`
 * (filter.h).  What cannot be had is left out. */
void usage_start(struct exact *x, uint32_t kinds, uint32_t by_name);
void usage_stop(void);

/* A turn of `s`, which is in the stack of `t`, begins; these `kinds` are told of it. */
void usage_begin(struct exact_thread *t, struct exact_frame *s, uint32_t kinds);

/* One of which something is told ends; returns `of`. */
const struct call_usage *usage_end(struct exact_thread *t, const struct exact_frame *s,
                                   struct call_usage *of);

#endif
