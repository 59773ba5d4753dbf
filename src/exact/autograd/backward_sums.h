/* backward_sums.h - what work that was done later for calls (backward_work.h) took, by call and name.
 *
 * A thread's sums are written by it alone, without a lock, in blocks that its struct has for good: a thread that is late adds
 * to its own, wherever the session has got to.  When it ends, the next thread goes on with them.
 *
 * Context: each function states it; those of a thread come without the GIL.
 */
#ifndef PYH_BACKWARD_SUMS_H
#define PYH_BACKWARD_SUMS_H

#include "makers.h"

#define LATER_BLOCK 256 /* sums that are read at once */

struct backward_sum {
    uint32_t thread, node; /* as in struct maker; 0: it is not known for which call */
    uint32_t name;         /* backward_name */
    uint32_t calls;
    uint64_t ticks;
};

struct backward_sums;

/* A thread takes sums when it begins with them (NULL: no memory), and gives them back at its end. */
struct backward_sums *backward_sums_take(void);
void backward_sums_give(struct backward_sums *s);

/* The thread's: adds a call, in the session of this number. */
void backward_sums_add(struct backward_sums *s, uint32_t session, const struct maker *origin,
                       uint32_t name, uint64_t ticks);

/* Begins a session, of a number that is not 0: what is added in others is not read any more. */
void backward_sums_start(uint32_t session);

/* Ends the reading of what was added, and of what is added until the next session begins. */
void backward_sums_forget(void);

/* The drain's: copies the `n` sums of a block, LATER_BLOCK at most; blocks are numbered from 0 without a gap, and their
 * order stays.  Returns false if there is no such block. */
bool backward_sums_read(uint32_t block, struct backward_sum *to, uint32_t *n);

/* Call it in a forked child. */
void backward_sums_after_fork_child(void);

#endif
