/* trace_fold.h - the trees of threads that are one row (thread_folds.h), as one: counters of nodes with one path are added.
 *
 * Of a thread that lives its counters are added anew each round, of one that has ended once, when its tree goes.
 *
 * Context: as trace_drain.h.
 */
#ifndef PYH_TRACE_FOLD_H
#define PYH_TRACE_FOLD_H

#include <stdbool.h>
#include <stdint.h>

struct canonical;
struct exact;
struct exact_thread;
struct spool;
struct thread_fold;
struct trace_counters;
struct trace_fold;

/* That of `f`, which the spool knows from now on by `index`.  NULL: no memory. */
struct trace_fold *trace_fold_new(struct spool *s, struct thread_fold *f, uint32_t index);
void trace_fold_free(struct trace_fold *f); /* NULL: nothing */

uint32_t trace_fold_index(const struct trace_fold *f);

/* The thread's new nodes get their places in the tree (t->n_written), up to one whose code object's record has not come; `last`:
 * it waits for none. */
void trace_fold_nodes(struct trace_fold *f, struct canonical *w, struct exact *x,
                      struct exact_thread *t, bool last);

/* The node that one of the thread's is in the tree; 0: it has no place yet. */
uint32_t trace_fold_node(const struct exact_thread *t, uint32_t node);

/* Adds the thread's counters, for the next trace_fold_write alone.  `ticks`: now. */
void trace_fold_add(struct trace_fold *f, struct trace_counters *c, struct exact_thread *t,
                    uint64_t ticks);

/* The thread has ended, and goes, or all ends: its counters and its calls' durations stay. */
void trace_fold_end(struct trace_fold *f, struct trace_counters *c, struct exact_thread *t,
                    uint64_t ticks);

/* Writes new nodes, and what of the counters has changed. */
void trace_fold_write(struct trace_fold *f, struct trace_counters *c, struct spool *s);

#endif
