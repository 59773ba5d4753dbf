/* drain.h - from the threads' rings to the spool.
 *
 * Turns raw frame words into canonical ones, interns stacks, writes what is new.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_DRAIN_H
#define PYH_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "exact_drain.h"
#include "thread.h"

struct drain;
struct spool;
struct thread_fold;

/* `max_timeline` is the bound, in bytes, of samples that keep their times (sample_segments.c); 0: all do.  Returns NULL
 * if there is no memory. */
struct drain *drain_new(struct spool *s, uint32_t max_nodes, uint64_t max_timeline);
void drain_free(struct drain *d);

/* Makes `t` ready to be drained.  Returns 0, or -1 if there is no memory. */
int drain_add_thread(struct thread *t, uint64_t first_seen_ns);

/* Returns the row of the spool that the thread's records are of, which is written to the spool.  The thread's name is
 * looked at once, when the first record is written: `name`, where it is not empty, else what is known of it.  `*fold`
 * is that of several threads, or NULL. */
uint32_t drain_row(struct drain *d, struct thread *t, const char *name, struct thread_fold **fold);

/* Decides the row of a thread that ends, or of any when sampling does. */
void drain_settle(struct drain *d, struct thread *t);

/* The same for a thread that no sampler will see, whose own row would be `record`. */
uint32_t drain_row_of_unseen(struct drain *d, const struct spool_thread *record, const char *name,
                             struct thread_fold **fold);

/* Returns whether the thread has a row of its own that is in the spool. */
bool drain_has_own_row(const struct thread *t);

/* Takes what is in `t`'s ring, up to a sample that waits for a code record of another ring; with `last`,
 * or when it has waited long, that one, too.  Returns whether anything was taken. */
bool drain_thread(struct drain *d, struct thread *t, bool last);

/* Takes where in the kernel the thread's clock ticked, before the sample is drained that it belongs to: addresses,
 * innermost first; none: it was in the program.  Processors' rings are read one after the other, so the ticks of a
 * thread that moved may not come in order of time.  Returns false if there is no memory. */
bool drain_kernel(struct drain *d, struct thread *t, uint64_t time_ns, const uint64_t *chain,
                  size_t n);
/* The same for a tick that was in the program, at this instruction, of a thread that drain_blocked is going to be
 * called for.  Call it within a pass. */
bool drain_program(struct drain *d, struct thread *t, uint64_t time_ns, uint64_t address);
/* Holds back later samples: their ticks (drain_kernel) are not known yet. */
void drain_samples_until(struct drain *d, uint64_t time_ns);

/* Repeats the thread's last sample, which holds for `weight` periods more, up to `time_ns`, as one more sample. */
void drain_repeat(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight);

/* Sets what the sample of a young thread's tick (sampler/clocks/newborn.h) stands for, and a period.  `shared_ns` is
 * the time that young threads ran until now for which ticks alone stand, all of those that have ended. */
void drain_set_ticks(struct drain *d, uint64_t tick_ns, uint64_t period_ns, uint64_t shared_ns);
/* Returns what all of them stood for. */
uint64_t drain_ticked_ns(const struct drain *d);

/* The thread ran for `weight` periods up to `time_ns` with the signal blocked; where it was, its clock wrote
 * (drain_kernel). */
void drain_blocked(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight);

/* Call them before and after a pass over all threads' rings.  drain_begin returns true if a library was loaded or
 * unloaded: what was known by address holds no more. */
bool drain_begin(struct drain *d);
void drain_end(struct drain *d);

/* Returns whether the thread has samples that the spool has not. */
bool drain_has_samples(const struct thread *t);

/* Writes the thread's samples and counters so far.  `missed_weight` counts periods that nobody sampled. */
void drain_snapshot(struct drain *d, struct thread *t, uint64_t cpu_ns, uint64_t missed_weight);

/* Drains the exact half's trees, logs and calls, too, from now on (exact_drain.h).  Returns 0, or -1 if there is no
 * memory. */
struct exact;
int drain_set_exact(struct drain *d, struct exact *x, uint64_t keep_events_ns,
                    exact_drain_number *number, void *arg);
void drain_logs(struct drain *d, const struct registry *r);
bool drain_keeps_logs(const struct drain *d);
bool drain_logs_urgent(const struct drain *d);
void drain_exact(struct drain *d, const struct registry *r, bool last);

/* Writes, before the spool's commit, what folded threads (thread_folds.c) are together. */
void drain_folds(struct drain *d);

/* Turns, after the spool's commit, the oldest samples into sums if the timeline is at its bound. */
void drain_merge(struct drain *d);

/* Returns the canonical word of the function that starts there, if it is in the spool; else 0. */
uint64_t drain_function(const struct drain *d, uint64_t start);

/* Forgets a thread that is gone (its snapshot is written). */
void drain_remove_thread(struct drain *d, struct thread *t);

#endif
