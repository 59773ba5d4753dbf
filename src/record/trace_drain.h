/* trace_drain.h - from the exact half's trees, event logs and kept calls to the spool.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_TRACE_DRAIN_H
#define PYH_TRACE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct exact;
struct trace_drain;
struct exact_thread;
struct registry;
struct spool;
struct canonical;
struct thread_folds;

/* The row of a thread that events came from: the number of a SPOOL_THREAD, which no other one gets; or t->fold is set. */
typedef uint32_t trace_drain_number(void *arg, struct exact_thread *t);

/* NULL: no memory.  keep_events_ns: as in sampler.h. */
struct trace_drain *trace_drain_new(struct spool *s, struct canonical *w, struct exact *x,
                                    struct thread_folds *folds, uint64_t keep_events_ns,
                                    trace_drain_number *number, void *arg);
void trace_drain_free(struct trace_drain *d);

/* Takes the code objects that the callbacks met. */
void trace_drain_codes(struct trace_drain *d);

/* Takes the event logs and kept calls, and the trees of folded threads that have ended and are no more in `r`; `urgent` tells
 * whether one of the logs fills up. */
void trace_drain_logs(struct trace_drain *d, const struct registry *r);
bool trace_drain_urgent(const struct trace_drain *d);
bool trace_drain_keeps_logs(const struct trace_drain *d); /* of any thread */

/* Does each thread need a row of its own, for its log of events? */
bool trace_drain_needs_rows(const struct trace_drain *d);

/* Writes what is new in the trees: nodes and the counters that changed; forgets threads that ended
 * and are no more in `r`.  With `last`, waits for no code object. */
void trace_drain_write(struct trace_drain *d, const struct registry *r, bool last);

#endif
