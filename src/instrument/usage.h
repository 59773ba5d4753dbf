/* usage.h - what a kept call's thread used meanwhile: CPU time, faults, context switches; and the process's resident memory.
 *
 * Context: the thread itself, in its callbacks.
 */
#ifndef PYH_USAGE_H
#define PYH_USAGE_H

#include "call_tree.h"

/* From now on the calls of `x` that are kept have this (enum usage_kinds).  What cannot be had is left out. */
void usage_start(struct exact *x, uint32_t kinds);
void usage_stop(void);

/* A turn of `s`, which is in the stack of `t`, begins. */
void usage_begin(const struct exact *x, struct exact_thread *t, const struct exact_frame *s);

/* It ends; returns `of`, or NULL where its begin is not known. */
const struct call_usage *usage_end(const struct exact *x, const struct exact_thread *t,
                                   const struct exact_frame *s, struct call_usage *of);

#endif
