/* trace_drain.h - from the exact half's trees, event logs and kept calls to the spool.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_TRACE_DRAIN_H
#define PYH_TRACE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct exact;
struct exact_drain;
struct exact_thread;
struct registry;
struct spool;
struct words;

/* The SPOOL_THREAD of a thread that events came from: its number, which no other one gets. */
typedef uint32_t exact_drain_number(void *arg, const struct exact_thread *t);

/* NULL: no memory.  keep_events_ns: as in sampler.h. */
struct exact_drain *exact_drain_new(struct spool *s, struct words *w, struct exact *x,
                                    uint64_t keep_events_ns, exact_drain_number *number, void *arg);
void exact_drain_free(struct exact_drain *d);

/* Takes the code objects that the callbacks met. */
void exact_drain_codes(struct exact_drain *d);

/* Takes the event logs and kept calls; `urgent` tells whether one of them fills up. */
void exact_drain_logs(struct exact_drain *d);
bool exact_drain_urgent(const struct exact_drain *d);
bool exact_drain_keeps_logs(const struct exact_drain *d); /* of any thread */

/* Writes what is new in the trees: nodes and the counters that changed; forgets threads that ended
 * and are no more in `r`.  With `last`, waits for no code object. */
void exact_drain_write(struct exact_drain *d, const struct registry *r, bool last);

#endif
