/* watched_calls.h - single calls of functions that a framework's watch list names (watch_list.c), of which the steps of a
 * training are made: apart from the calls that the user keeps (kept_calls.h), in their bounds and in the file.
 *
 * All are kept, with the thread's CPU time, up to a bound on the session's; later ones are in the tree's counters alone.
 * A call that was not seen from its begin to its end is none.  Of backward work a call within it is no part: layers that are
 * computed again are no work of the node that needs what they gave.
 *
 * Context: the thread itself, with the GIL; the queue is to the drain.
 */
#ifndef PYH_WATCHED_CALLS_H
#define PYH_WATCHED_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backward_place.h"
#include "block_queue.h"

#define WATCHED_MAX (1u << 18)   /* of the session's: 10 MB */
#define WATCHED_QUEUE_FIRST 4096 /* bytes */
#define WATCHED_COLLECTION 2u
#define WATCHED_FREED 8 /* bits */
#define WATCHED_FREED_MOST 0xffffffu
#define EXACT_GENERATIONS 3
#define WATCHED_UNSEEN UINT64_MAX /* in the place of CPU time: its begin was not seen */
#define WATCHED_RAISED 1u         /* it ended by an exception */
#define WATCHED_MADE_NONE                                                                          \
    0x80u /* the calling thread made nothing meanwhile that a library numbers (makers.h) */

/* What is in the queue, and in the spool. */
struct watched_call {
    uint64_t since, until;               /* ticks */
    uint64_t cpu_since_ns, cpu_until_ns; /* the thread's CPU time */
    uint32_t node;
    /* WATCHED_RAISED | WATCHED_MADE_NONE.  From WATCHED_COLLECTION on, without the latter, it is no call but a garbage
     * collection that happened in one: that and the generation, and from WATCHED_FREED on how many objects it freed.  Of a
     * call there is how many integers a model got (watched_note). */
    uint32_t how;
    uint64_t resident_bytes; /* of the process at its end; 0: not read */
};

/* What was when a call began. */
struct watched_begin {
    uint64_t since;  /* ticks */
    uint64_t cpu_ns; /* or WATCHED_UNSEEN */
    uint32_t elements;
    uint64_t made;                /* the number that the next thing gets; UINT64_MAX: not known */
    struct backward_place within; /* the work that runs, which a call is no part of */
};

/* A thread's own.  Zeroed: empty. */
struct watched_calls {
    struct block_queue queue;
    struct watched_begin *begins; /* of those that run, by place in the stack */
    size_t begins_bytes;
};

/* Begins the call at this place in the stack.  `since` and `made` as in watched_begin. */
void watched_begin(struct watched_calls *w, uint32_t place, uint64_t since, bool is_seen,
                   uint64_t made);

/* The call at this place, which has hardly begun, begins later than that; what was noted of it stays. */
void watched_begin_anew(struct watched_calls *w, uint32_t place, uint64_t since, uint64_t made);

/* What the model that it calls got, in elements, at most WATCHED_FREED_MOST; 0: it calls none, or that is not known. */
void watched_note(struct watched_calls *w, uint32_t place, uint32_t elements);

/* Ends it; `call` has its end, its node, and `how` it ended.  Returns whether it was put into the queue, for which
 * there must be `room` in the session. */
bool watched_end(struct watched_calls *w, uint32_t place, struct watched_call *call, uint64_t made,
                 bool room);

/* Puts into the queue what is known from begin to end.  Returns false without memory. */
bool watched_add(struct watched_calls *w, const struct watched_call *call);

void watched_clear(struct watched_calls *w);

#endif
