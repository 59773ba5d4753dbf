/* trace_parts.h - what trace_drain.c is made of; the collector's thread, where nothing else is said.
 */
#ifndef PYH_TRACE_PARTS_H
#define PYH_TRACE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call_tree.h"
#include "later.h"
#include "spool.h"

/* --- thread_folds.c ------------------------------------------------------------------------------ */

#define FOLD_AFTER 64
#define FOLD_AFTER_ALL 1024
#define FOLD_NAMES 1024 /* those of further names are one, `*` */
#define FOLD_NAME_MAX 64

struct trace_fold;

/* The threads of a name. */
struct thread_fold {
    struct thread_fold *next;
    char name[FOLD_NAME_MAX];
    uint32_t n_ended;         /* that had a row of their own */
    uint32_t index;           /* of the SPOOL_THREAD; 0: none is folded */
    uint64_t n_threads;       /* in it */
    struct trace_fold *trace; /* trace_fold.c; NULL: none of them had events */
    struct spool_counters sum;
    struct spool_place folded_place, sum_place;
    bool is_changed;
};

struct thread_folds {
    struct spool *spool;
    struct thread_fold *first;
    uint32_t n_names, n_ended;
};

/* Which row does a thread of this name get, whose own one would be `record`?  NULL: that, and it is written.  `*of`: of its
 * name, also then (NULL: no memory).  `can_be_folded`: false for one that needs a row of its own. */
struct thread_fold *thread_folds_row(struct thread_folds *f, struct spool_thread record,
                                     const char *name, bool can_be_folded, struct thread_fold **of);

/* Would a thread of this name be folded? */
bool thread_folds_are_many(struct thread_folds *f, const char *name);

/* One with a row of its own has ended. */
void thread_folds_end(struct thread_folds *f, struct thread_fold *of);

/* A folded thread's counters, which were `before` (zeroes) up to now. */
void thread_folds_count(struct thread_fold *f, const struct spool_counters *now,
                        const struct spool_counters *before);

/* Writes what has changed: before spool_commit. */
void thread_folds_write(struct thread_folds *f);
void thread_folds_free(struct thread_folds *f);

/* --- trace_counters.c ---------------------------------------------------------------------------- */

#define EXACT_BLOCK_MAX 1024

struct exact_block;
struct exact_thread;
struct exact_activation;

/* What trace_counters_write works in: not on the stack, for sampler_pause runs on one of the program's. */
struct trace_counters {
    struct exact_activation *running;
    size_t running_bytes;
    struct spool_exact_count rows[EXACT_BLOCK_MAX];
};

/* Those of the nodes that the spool has. */
void trace_counters_write(struct trace_counters *c, struct spool *s, struct exact_thread *t);

/* Gives each row of them to `take`, of one moment.  Where there is no memory it gives none. */
typedef void trace_counters_take(void *arg, uint32_t node, const struct spool_exact_count *row);
void trace_counters_read(struct trace_counters *c, struct exact_thread *t,
                         trace_counters_take *take, void *arg);

/* Writes the rows of nodes 1 to n of a tree that the spool knows by `index`, where they are others than the last time;
 * `*blocks`: that tree's, of `*blocks_bytes`. */
typedef struct spool_exact_count trace_counters_row(void *arg, uint32_t node);
void trace_counters_put(struct trace_counters *c, struct spool *s, uint32_t index, uint32_t n,
                        struct exact_block **blocks, size_t *blocks_bytes, trace_counters_row *row,
                        void *arg);
void trace_counters_free(struct trace_counters *c);

/* --- trace_fold.c -------------------------------------------------------------------------------- */

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

/* --- trace_later.c ------------------------------------------------------------------------------- */

struct trace_later_block;
struct trace_later {
    struct trace_later_block *blocks;
    size_t blocks_bytes;
    uint32_t n_named; /* names that the spool has */
    struct later_sum rows[LATER_BLOCK];
};

/* The pieces of work that were logged. */
void trace_later_take(struct spool *s);

void trace_later_write(struct trace_later *l, struct spool *s);
void trace_later_free(struct trace_later *l);

/* --- trace_log.c --------------------------------------------------------------------------------- */

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
