/* exact_parts.h - what exact_drain.c is made of; for the collector's thread, unless otherwise stated.
 */
#ifndef PYH_EXACT_PARTS_H
#define PYH_EXACT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call_tree.h"
#include "backward_work.h"
#include "spool.h"

/* --- thread_folds.c ------------------------------------------------------------------------------ */

#define FOLD_AFTER 64
#define FOLD_AFTER_ALL 1024
#define FOLD_NAMES 1024 /* those of further names are one, `*` */
#define FOLD_NAME_MAX 64

struct exact_fold;

/* The threads of a name. */
struct thread_fold {
    struct thread_fold *next;
    char name[FOLD_NAME_MAX];
    uint32_t n_ended;         /* that had a row of their own */
    uint32_t index;           /* of the SPOOL_THREAD; 0: none is folded */
    uint64_t n_threads;       /* in it */
    struct exact_fold *trace; /* exact_fold.c; NULL: none of them had events */
    struct spool_counters sum;
    struct spool_place folded_place, sum_place;
    bool is_changed;
};

struct thread_folds {
    struct spool *spool;
    struct thread_fold *first;
    uint32_t n_names, n_ended;
};

/* Returns the row that a thread of this name gets, whose own one would be `record`; NULL: that one, which is written.
 * `*of` is that of its name, also then (NULL: no memory).  `can_be_folded` is false for one that needs a row of its
 * own. */
struct thread_fold *thread_folds_row(struct thread_folds *f, struct spool_thread record,
                                     const char *name, bool can_be_folded, struct thread_fold **of);

/* Returns whether a thread of this name would be folded. */
bool thread_folds_are_many(struct thread_folds *f, const char *name);

/* Counts a thread with a row of its own that has ended. */
void thread_folds_end(struct thread_folds *f, struct thread_fold *of);

/* Adds a folded thread's counters, which were `before` (zeroes at first) up to now. */
void thread_folds_count(struct thread_fold *f, const struct spool_counters *now,
                        const struct spool_counters *before);

/* Writes what has changed: before spool_commit. */
void thread_folds_write(struct thread_folds *f);
void thread_folds_free(struct thread_folds *f);

/* --- exact_counters.c ---------------------------------------------------------------------------- */

#define EXACT_BLOCK_MAX 1024

struct exact_block;
struct exact_thread;
struct exact_activation;

/* What exact_counters_write works in: not on the stack, for sampler_pause runs on one of the program's. */
struct exact_counters {
    struct exact_activation *running;
    size_t running_bytes;
    struct spool_exact_count rows[EXACT_BLOCK_MAX];
};

/* Writes the counters of the nodes that the spool has. */
void exact_counters_write(struct exact_counters *c, struct spool *s, struct exact_thread *t);

/* Gives each row of them to `take`, all of one moment.  Where there is no memory it gives none. */
typedef void exact_counters_take(void *arg, uint32_t node, const struct spool_exact_count *row);
void exact_counters_read(struct exact_counters *c, struct exact_thread *t,
                         exact_counters_take *take, void *arg);

/* Writes the rows of nodes 1 to n of a tree that the spool knows by `index`, where they are others than the last time;
 * `*blocks`: that tree's, of `*blocks_bytes`. */
typedef struct spool_exact_count exact_counters_row(void *arg, uint32_t node);
void exact_counters_put(struct exact_counters *c, struct spool *s, uint32_t index, uint32_t n,
                        struct exact_block **blocks, size_t *blocks_bytes, exact_counters_row *row,
                        void *arg);
void exact_counters_free(struct exact_counters *c);

/* --- exact_fold.c -------------------------------------------------------------------------------- */

struct canonical;
struct exact;
struct exact_thread;
struct spool;
struct thread_fold;
struct exact_counters;
struct exact_fold;

/* Makes the fold of `f`, which the spool knows from now on by `index`.  Returns NULL if there is no memory. */
struct exact_fold *exact_fold_new(struct spool *s, struct thread_fold *f, uint32_t index);
void exact_fold_free(struct exact_fold *f); /* NULL: nothing */

uint32_t exact_fold_index(const struct exact_fold *f);

/* Gives the thread's new nodes their places in the tree (t->n_written), up to one whose code object's record has not
 * come; with `last`, it waits for none. */
void exact_fold_nodes(struct exact_fold *f, struct canonical *w, struct exact *x,
                      struct exact_thread *t, bool last);

/* Returns the node that one of the thread's is in the tree, or 0 if it has no place yet. */
uint32_t exact_fold_node(const struct exact_thread *t, uint32_t node);

/* Adds the thread's counters, for the next exact_fold_write alone.  `ticks` is the present time. */
void exact_fold_add(struct exact_fold *f, struct exact_counters *c, struct exact_thread *t,
                    uint64_t ticks);

/* Keeps the counters and the calls' durations of a thread that has ended and goes, or of any when all ends. */
void exact_fold_end(struct exact_fold *f, struct spool *s, struct exact_counters *c,
                    struct exact_thread *t, uint64_t ticks);

/* Writes new nodes, and what of the counters has changed. */
void exact_fold_write(struct exact_fold *f, struct exact_counters *c, struct spool *s);

/* --- exact_drain.c ------------------------------------------------------------------------------- */

struct backward_drain_block;
struct backward_drain {
    struct backward_drain_block *blocks;
    size_t blocks_bytes;
    uint32_t n_named; /* names that the spool has */
    struct backward_sum rows[LATER_BLOCK];
};

/* Takes the pieces of work that were logged. */
void backward_drain_take(struct spool *s);

void backward_drain_write(struct backward_drain *l, struct spool *s);
void backward_drain_free(struct backward_drain *l);

/* --- exact_log.c --------------------------------------------------------------------------------- */

struct event_block;

/* Zeroed: events are written as they come, up to EXACT_LOG_EVENTS. */
struct exact_log {
    uint64_t
        keep_ns; /* not 0: only those of the last time are kept, in memory, and written at the end */
    struct event_block *first, *last;
    uint64_t n_events; /* written, or in memory */
};

#define EXACT_LOG_EVENTS (1ull << 27) /* 1 GiB in the file */
#define EXACT_LOG_MEMORY (1ull << 25) /* 256 MiB in memory */

/* Takes what waits of `t`, whose number the spool knows. */
void exact_log_take(struct exact_log *l, struct spool *s, struct exact_thread *t);

/* No more events will come from `t`: records what its full ring lost last. */
void exact_log_end_thread(struct exact_log *l, struct spool *s, struct exact_thread *t);

/* Writes the durations that changed. */
void exact_log_write_times(struct spool *s, struct exact_thread *t);

/* Writes what was held back. */
void exact_log_end(struct exact_log *l, struct spool *s);
void exact_log_free(struct exact_log *l);

bool exact_log_urgent(const struct exact_thread *t);

#endif
