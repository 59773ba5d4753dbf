/* later_sums.h - what work that was done later for calls (later.h) took, by call and name.
 *
 * A thread's sums are written by it alone, without a lock, in blocks that its struct has for good: a thread that is late adds
 * to its own, wherever the session has got to.  When it ends, the next thread goes on with them.
 *
 * Context: each function says; those of a thread come without the GIL.
 */
#ifndef PYH_LATER_SUMS_H
#define PYH_LATER_SUMS_H

#include "origins.h"

#define LATER_BLOCK 256 /* sums that are read at once */

struct later_sum {
    uint32_t thread, node; /* as in struct origin; 0: it is not known for which call */
    uint32_t name;         /* later_name */
    uint32_t calls;
    uint64_t ticks;
};

struct later_sums;

/* A thread's begin and its end with them.  NULL: no memory. */
struct later_sums *later_sums_take(void);
void later_sums_give(struct later_sums *s);

/* The thread's: a call, in the session of this number. */
void later_sums_add(struct later_sums *s, uint32_t session, const struct origin *origin,
                    uint32_t name, uint64_t ticks);

/* A session begins, of a number that is not 0: what is added in others is not read any more. */
void later_sums_start(uint32_t session);

/* Nothing that was added is read any more, nor what is until the next session begins. */
void later_sums_forget(void);

/* The drain's: copies the `n` sums of a block, LATER_BLOCK at most; blocks are numbered from 0 without a gap.  Their order
 * stays.  False: there is no such block. */
bool later_sums_read(uint32_t block, struct later_sum *to, uint32_t *n);

/* In a forked child. */
void later_sums_after_fork_child(void);

#endif
