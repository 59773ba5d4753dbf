/* trace_log.h - from the threads' event logs and kept calls to the spool.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_TRACE_LOG_H
#define PYH_TRACE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "call_tree.h"
#include "spool.h"

struct event_block;

/* Zeroed: events are written as they come, up to EXACT_LOG_EVENTS. */
struct trace_log {
    uint64_t
        keep_ns; /* not 0: only those of the last time are kept, in memory, and written at the end */
    struct event_block *first, *last;
    uint64_t n_events; /* written, or in memory */
};

#define EXACT_LOG_EVENTS (1ull << 27) /* 1 GiB in the file */
#define EXACT_LOG_MEMORY (1ull << 25) /* 256 MiB in memory */

/* Takes what waits of `t`, whose number the spool knows. */
void trace_log_take(struct trace_log *l, struct spool *s, struct exact_thread *t);

/* No more events will come from `t`: says what its full ring lost last. */
void trace_log_end_thread(struct trace_log *l, struct spool *s, struct exact_thread *t);

/* Writes the durations that changed. */
void trace_log_write_times(struct spool *s, struct exact_thread *t);

/* Writes what was held back. */
void trace_log_end(struct trace_log *l, struct spool *s);
void trace_log_free(struct trace_log *l);

bool trace_log_urgent(const struct exact_thread *t);

#endif
