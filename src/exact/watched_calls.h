/* watched_calls.h - single calls of functions that a framework's watch list names (watch_list.c), of which the steps of a
 * training are made: apart from the calls that the user keeps (kept_calls.h), in their bounds and in the file.
 *
 * All are kept, with the thread's CPU time, up to a bound on the session's; later ones are in the tree's counters alone.
 * A call that was not seen from its begin to its end is none.
 *
 * Context: the thread itself, with the GIL; the queue is to the drain.
 */
#ifndef PYH_WATCHED_CALLS_H
#define PYH_WATCHED_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block_queue.h"

#define WATCHED_MAX (1u << 18)   /* of the session's: 10 MB */
#define WATCHED_QUEUE_FIRST 4096 /* bytes */
#define WATCHED_COLLECTION 2u
#define WATCHED_FREED 8 /* bits */
#define WATCHED_FREED_MOST 0xffffffu
#define EXACT_GENERATIONS 3
#define WATCHED_UNSEEN UINT64_MAX /* in the place of CPU time: its begin was not seen */

/* What is in the queue, and in the spool. */
struct watched_call {
    uint64_t since, until;               /* ticks */
    uint64_t cpu_since_ns, cpu_until_ns; /* the thread's CPU time */
    uint32_t node;
    /* 1: it ended by an exception.  From WATCHED_COLLECTION on it is no call but a garbage collection that happened in
     * one: that and the generation, and from WATCHED_FREED on how many objects it freed. */
    uint32_t raised;
};

/* A thread's own.  Zeroed: empty. */
struct watched_calls {
    struct block_queue queue;
    uint64_t *cpu_ns; /* when those that run began; by place in the stack */
    size_t cpu_bytes;
};

/* Begins the call at this place in the stack. */
void watched_begin(struct watched_calls *w, uint32_t place, bool is_seen);

/* Ends it; `call` has all but the CPU times.  Returns whether it was put into the queue. */
bool watched_end(struct watched_calls *w, uint32_t place, struct watched_call *call);

/* Puts into the queue what is known from begin to end.  Returns false without memory. */
bool watched_add(struct watched_calls *w, const struct watched_call *call);

void watched_clear(struct watched_calls *w);

#endif
