/* backward_work.h - how often and how long native code works later for a call: an autograd node for the layer that made
 * it.
 *
 * Each piece of work begins and ends, on any thread, with pieces in one another.  Its time, without what is in it, is
 * added to (the call's node, its name).
 *
 * Context: backward_begin and backward_end come without the GIL, on any thread, and without a lock as a rule; that of
 * the others is stated with them.
 */
#ifndef PYH_BACKWARD_WORK_H
#define PYH_BACKWARD_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "backward_sums.h"

/* What an extension that knows a library calls: the module's capsule has a pointer to it. */
#define LATER_MODULE "pyhybrid._native"
#define BACKWARD_CAPSULE "later"
#define LATER_FOLLOWS UINT64_MAX
struct backward_api {
    void (*watch)(const struct maker_source *source);
    /* The work for `number` of `maker` (makers.h) begins; LATER_FOLLOWS: for what the thread's last one was for, which
     * it ends.  `address` is that of something in the frame of the function that does it, and distinguishes the pieces
     * of a thread. */
    void (*begin)(uint64_t maker, uint64_t number, uint64_t address);
    void (*end)(uint64_t address, const char *name);
    /* For which call the calling thread works just now: the top of its shadow stack, or what made the autograd node that
     * runs (*is_later).  Returns false, and a place of zeros, where none is known. */
    bool (*here)(struct maker *place, bool *is_later);
};
extern const struct backward_api backward_api;

/* A piece of work, while they are logged: beside the event log (turns.h). */
struct backward_turn {
    uint64_t since, until; /* ticks */
    uint32_t thread, node; /* as in backward_sum */
    uint32_t tid, handle;  /* where it ran: exact_thread's */
};

/* Makes a session ready: whoever reads finds nothing of an earlier one from now on, for threads and nodes have their
 * numbers by session.  Call it with the GIL, while none runs. */
void backward_forget(void);

/* The session begins after that, and ends.  With the GIL. */
void backward_start(void);
void backward_stop(void);

/* Switches the logging of pieces on or off. */
void backward_log(bool on);

/* The drain's: returns the logged ones, as far as they lie together (block_queue.h). */
const struct backward_turn *backward_turns(size_t *bytes);
void backward_turns_release(size_t bytes);

const char *backward_name(uint32_t number); /* from 1 on; NULL: there is none */

/* Call it in a forked child. */
void backward_after_fork_child(void);

#endif
