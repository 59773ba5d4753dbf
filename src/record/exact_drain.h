/* exact_drain.h - from the exact half's trees, event logs and kept calls to the spool.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_EXACT_DRAIN_H
#define PYH_EXACT_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct exact;
struct exact_drain;
struct exact_thread;
struct registry;
struct spool;
struct canonical;
struct thread_folds;

/* Returns the row of a thread that events came from: the number of a SPOOL_THREAD, which no other one gets; or t->fold
 * is set. */
typedef uint32_t exact_drain_number(void *arg, struct exact_thread *t);

/* Returns NULL if there is no memory.  keep_events_ns is as in sampler.h. */
struct exact_drain *exact_drain_new(struct spool *s, struct canonical *w, struct exact *x,
                                    struct thread_folds *folds, uint64_t keep_events_ns,
                                    exact_drain_number *number, void *arg);
void exact_drain_free(struct exact_drain *d);

/* Takes the code objects that the callbacks met. */
void exact_drain_codes(struct exact_drain *d);

/* Takes the event logs and kept calls, and the trees of folded threads that have ended and are no more in `r`; `urgent`
 * returns whether one of the logs fills up. */
void exact_drain_logs(struct exact_drain *d, const struct registry *r);
bool exact_drain_urgent(const struct exact_drain *d);
bool exact_drain_keeps_logs(const struct exact_drain *d); /* of any thread */

/* Returns whether each thread needs a row of its own, for its log of events. */
bool exact_drain_needs_rows(const struct exact_drain *d);

/* Writes what is new in the trees: nodes and the counters that changed; forgets threads that ended
 * and are no more in `r`.  With `last`, waits for no code object. */
void exact_drain_write(struct exact_drain *d, const struct registry *r, bool last);

#endif
