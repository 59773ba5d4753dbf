/* thread.h - what the profiler keeps for each thread of the program.
 *
 * The drain thread makes a record when it sees a thread (registry_add), publishes it in the
 * registry, and frees it when the thread is gone.  The thread's own signal handler finds it by
 * tid, once, and is the only writer of its sampling state: no lock anywhere.
 *
 * Context: registry_find is async-signal-safe; the rest belongs to the drain thread.
 */
#ifndef PYH_THREAD_H
#define PYH_THREAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pyframe.h"
#include "ring.h"
#include "spool.h"
#include "unwind.h"

#define THREADS_MAX 4096

/* One writer (the handler), read by the drain at any time: relaxed atomics, no read-modify-write. */
typedef _Atomic uint64_t counter;

static inline void counter_add(counter *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t counter_get(counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

struct thread_counters {
    counter signals, recorded, recorded_weight;
    counter lost[N_LOSSES], lost_weight[N_LOSSES];
    counter handler_ns[SPOOL_HISTOGRAM];
    counter cpu_ns; /* the thread's CPU clock at its last sample */
};

struct thread_limits {
    size_t max_frames; /* words in a recorded stack */
    size_t ring_bytes; /* a power of two */
};

struct thread {
    pid_t tid;
    uint32_t index; /* in the spool, from 1 */
    struct thread_counters counters;
    struct ring ring;

    /* The handler's own. */
    struct unwind unwind;
    struct py_chain chain;
    struct native_frame *native;
    uint64_t *python, *words; /* max_frames each */
    struct thread_limits limits;
    uint64_t cpu_ns;        /* CPU clock up to which weight has been given */
    int64_t carry_ns;       /* of that, not yet given */
    uint64_t rest_until_ns; /* by the sampling clock: no sample before that */
    uint32_t unwind_epoch;

    /* The drain thread's own. */
    struct drain_thread *drain;
    uint64_t base_cpu_ns;   /* CPU clock when sampling began */
    uint64_t last_cpu_ns;   /* when it was last read; 0: not yet */
    uint64_t paused_cpu_ns; /* when sampling was paused */
    uint64_t missed_ns;     /* CPU time before that, if the thread is younger than the profile */
    uint64_t start_ns;
    int fd; /* of its perf event, or -1 */
    uint64_t event_id;
    void *timer; /* its timer_t */
    unsigned char seen, has_timer, dead;
    size_t mapping_bytes;
};

/* A handler looks at `tid` alone until it has found its own: other records may be freed meanwhile. */
struct registry_slot {
    _Atomic pid_t tid; /* 0: free */
    _Atomic(struct thread *) thread;
};

struct registry {
    struct registry_slot slot[THREADS_MAX];
    _Atomic uint32_t n; /* slots in use lie below this */
};

/* Makes the record of thread `tid` and publishes it.  NULL: no memory, or too many threads. */
struct thread *registry_add(struct registry *r, pid_t tid, uint32_t index,
                            const struct thread_limits *limits);

/* Takes `t` out and frees it; its thread must be gone, or no handler able to run. */
void registry_remove(struct registry *r, struct thread *t);

/* The next record from slot `*at` on, which it moves; NULL: no more.  Start with *at = 0. */
struct thread *registry_next(struct registry *r, uint32_t *at);

/* The record of `tid`, or NULL.  Async-signal-safe. */
struct thread *registry_find(const struct registry *r, pid_t tid);

#endif
