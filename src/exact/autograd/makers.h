/* makers.h - which call made what a library numbers, thread by thread and one after another: PyTorch its autograd
 * nodes.
 *
 * At each event the library's counter is compared with its last value.  If it has moved, what was made since belongs to
 * the function that ran, the top of the shadow stack: a span of numbers, in a ring of the thread's.  Whoever meets one
 * of these things later, on any thread, finds the span by the thread that made it and its number.
 *
 * Context: makers_watch, makers_forget and makers_note need the GIL; maker_find does not, and never waits.
 */
#ifndef PYH_MAKERS_H
#define PYH_MAKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "call_tree.h"

struct maker {
    uint32_t thread; /* spool.h, struct spool_exact_thread; 0: not known */
    uint32_t node;
    uint32_t
        object; /* the region number of the innermost object (instance_table.h) around it; 0: none */
};

struct maker_source {
    /* Returns where the number stands, as long as the thread lives, that the calling thread's next thing gets; NULL:
     * none. */
    const uint64_t *(*counter)(void);
    uint64_t (*maker)(void); /* how the library calls the calling thread; not 0 */
};

/* Looks at the counter of each thread from now on; NULL: at none. */
void makers_watch(const struct maker_source *source);

/* Gives what was made until now, while nothing was counted, to no function. */
void makers_skip(struct exact *x);

/* Call it for a thread of the program before its first event. */
void makers_begin_thread(struct exact_thread *t);

/* Call it where the counter has moved, before the shadow stack changes. */
void makers_note(struct exact_thread *t);

static inline bool makers_moved(const struct exact_thread *t)
{
    return *t->counter != t->seen;
}

/* Returns the number that the calling thread's next thing gets; UINT64_MAX: it is not known. */
uint64_t makers_next(const struct exact_thread *t);

/* Finds what made `number` on the thread that the library calls `maker`.  `*hint` is where to look first, from the
 * calling thread's last call.  Returns false if it is not known (any more). */
bool maker_find(uint64_t maker, uint64_t number, uint64_t *hint, struct maker *found);

/* Makes a session ready, which watches nothing yet: what was made before it is no function's. */
void makers_forget(void);

/* Call it in a forked child, where none is known. */
void makers_after_fork_child(void);

#endif
