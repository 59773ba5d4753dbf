/* thread_folds.h - threads that share a row of the spool: those of a name of which many have ended.
 *
 * A server that makes a thread for each request would else leave a row and a tree for each.  So each thread has a row of its
 * own until FOLD_AFTER threads of its name have ended, or FOLD_AFTER_ALL of all names; those that begin later are one row with
 * the others of their name, from their first record on, and stay in it however long they live (where only the kernel has named them,
 * as with `--mode sample`, all are `python`: then those that live for a second have rows of their own).  Numbers in a name do not
 * count: `Thread-12 (handle)` is `Thread-* (handle)`.  The first thread is never folded.  What is done later for calls of a folded
 * thread (later.h) has no place in the tree.
 *
 * Context: as drain.h.
 */
#ifndef PYH_THREAD_FOLDS_H
#define PYH_THREAD_FOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "spool.h"

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
    struct trace_fold *trace; /* trace_fold.h; NULL: none of them had events */
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

#endif
