/* thread.h - what the profiler keeps for each thread of the program.
 *
 * The drain thread makes a record when it sees a thread (registry_add), publishes it in the
 * registry, and frees it when the thread is gone.  The thread's own signal handler finds it by
 * tid, once, and is the only writer of its sampling state.  Where clocks are inherited a signal may
 * come before the drain thread saw its thread: the handler takes a record from stock
 * (registry_claim), which the drain thread numbers later.
 *
 * Context: registry_find and registry_claim are async-signal-safe and wait for nobody; the rest belongs to the
 * drain thread.
 */
#ifndef PYH_THREAD_H
#define PYH_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pyframe.h"
#include "records.h"
#include "ring.h"
#include "spool.h"
#include "unwind.h"

#define TIDS_MAX (1 << 22) /* include/linux/threads.h, PID_MAX_LIMIT */
#define THREADS_STOCK 64   /* threads that may begin between two looks of the drain thread */

/* One writer (the handler), read by the drain at any time: relaxed atomics, no read-modify-write. */
typedef _Atomic uint64_t counter;

static inline uint64_t counter_get(counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void counter_set(counter *c, uint64_t n)
{
    atomic_store_explicit(c, n, memory_order_relaxed);
}

static inline void counter_add(counter *c, uint64_t n)
{
    counter_set(c, counter_get(c) + n);
}

struct thread_counters {
    counter signals, recorded, recorded_weight;
    counter lost[N_LOSSES], lost_weight[N_LOSSES];
    counter handler_ns[SPOOL_HISTOGRAM];
    counter
        idle_ns; /* what signals stand for that came while the session was idle: it counts nowhere */
    counter cpu_ns;   /* the thread's CPU clock when a sample last read it */
    counter n_unread; /* samples since, each of about a period */
};

struct thread_limits {
    size_t max_frames;                   /* words in a recorded stack */
    size_t ring_bytes, ring_least_bytes; /* powers of two: usual, and where threads are many */
};
#define RING_SMALL (256u << 10)

/* sampler/clocks/period_correction.h: by which part, in 1/1024, the event's period is shorter, and since when that is
 * watched. */
struct period_correction {
    uint64_t cpu_ns, signals; /* 0: not yet */
    int32_t shorter;
};

/* The memory that a sample's walk works in. */
struct walk_room {
    size_t max_frames, max_entries; /* of the arrays below; words, too */
    struct native_frame *native;
    struct py_frame *frames;
    struct py_entry *entries;
    uint64_t *anchors, *python, *words;
};

/* Where the places of the shadow stack were when the last sample was taken (sampler/callers.c), `max` at most. */
struct callers {
    const struct exact_thread *of; /* whose stack */
    size_t max;
    struct caller_place {
        uint64_t since; /* the activation's begin */
        struct caller_note note;
    } *place;         /* the last one has no note */
    uint32_t n_since; /* places that were noted, ever */
    uint32_t n_known; /* places that the drain knows as they are */
};

struct thread {
    pid_t tid, listed; /* its number, and that in /proc (task_list.h); 0: not known */
    uint32_t index;    /* in the spool, from 1; 0: claimed, and not numbered yet */
    uint32_t place;    /* in struct registry's `numbered` */
    bool claimed;
    struct thread *next_claimed;
    char comm[16]; /* the kernel's name for it, at the last look */
    char name[64]; /* threading's, where it is known */
    struct thread_counters counters;
    struct ring ring;

    /* The handler's own. */
    struct unwind unwind;
    struct py_chain chain;
    struct walk_room room;
    struct walk_room full_room; /* for limits.max_frames */
    struct callers callers;
    struct thread_limits limits;
    uint64_t cpu_ns;  /* CPU clock when it was last read for a weight */
    int64_t carry_ns; /* of the time until then: not yet given; below 0: given ahead */
    uint64_t event_cpu_ns,
        event_faults;    /* the last event that did not see the kernel (handler.c) */
    uint64_t sampled_ns; /* the last signal, wall-clock time; 0: the next one reads the CPU clock */
    uint64_t rest_until_ns; /* by the clock sampled by: no sample before; 0: nothing is owed */
    bool is_urgent;         /* thread_is_urgent, after the last sample */

    /* sampler/clocks/newborn.h: the handler's. */
    _Atomic uint64_t
        blocked_ns; /* of its CPU time: no sample stands for it any more, the collector has written it */
    counter n_ticks;            /* samples of ticks */
    counter young_ns;           /* CPU time before its own clock took over, for which ticks stand */
    bool is_young;              /* it began while the session ran */
    unsigned n_own;             /* samples of its own clock while it is young */
    struct sample_record *held; /* the last tick's, not in the ring yet; NULL: none */
    size_t held_bytes;
    uint32_t held_known; /* callers.n_known before it */

    /* sleep_detection.c: the handler's, and what it shares with the drain thread. */
    uint32_t n_waits; /* samples in a row that found it waiting: since when, by both clocks */
    uint64_t waits_since_ns, waits_cpu_ns;
    uint64_t asleep_cpu_ns;           /* its CPU clock when it fell asleep */
    uint64_t owed_ns, held_ns;        /* CPU time unseen; time asleep less than a period */
    _Atomic uint32_t n_sleeps;        /* how often it has fallen asleep */
    _Atomic uint64_t asleep_since_ns; /* 0: it is awake */

    /* The drain thread's own. */
    struct drain_thread *drain;
    uint64_t base_cpu_ns;   /* CPU clock when sampling began */
    uint64_t last_cpu_ns;   /* when it was last read; 0: not yet */
    uint64_t paused_cpu_ns; /* when sampling was paused */
    uint64_t idle_rest_ns;  /* CPU time that counts nowhere, beside counters.idle_ns */
    uint64_t missed_ns;     /* CPU time before that, if the thread is younger than the profile */
    uint64_t covered_signals, covered_cpu_ns; /* how far its clock was seen to reach it */
    uint64_t start_ns;
    /* thread_scan.c, thread_look_blocked: its signals and its CPU clock at the last look, and what was written. */
    uint64_t looked_signals, looked_cpu_ns, blocked_weight;
    bool is_blocked;
    uint64_t ticked_ns;           /* CPU time before base_cpu_ns that ticks stand for */
    uint64_t tick_ns;             /* each of those that were before; 0: what ticks do in general */
    bool ticks_only;              /* it has no clock but its ticks yet */
    _Atomic bool ticks_in_kernel; /* its timer is for what its event does not see (handler.c) */
    bool has_ended;
    bool has_event; /* a perf event of its own */
    bool is_apart;  /* perf_clocks_keep_apart */
    bool has_exact; /* it is an exact half's thread, too */
    struct period_correction correction;
    uint64_t look_ns, look_wait_ns; /* thread_names.c: when, and how long after the last time */
    uint64_t watched_cpu_ns; /* sleep_detection.c: its CPU clock at the last look, and n_sleeps */
    uint32_t watched_sleeps;
    bool settled;       /* the clock stood still between two looks */
    uint64_t unseen_ns; /* time that no sample holds for */
    int cpu_timer;      /* by wall-clock time: what wakes it; the kernel's number */
    bool has_cpu_timer;
    int timer; /* the kernel's number */
    unsigned char seen, has_timer;
    size_t mapping_bytes;
};

/* Walks use this room from now on. */
static inline void thread_use_room(struct thread *t, const struct walk_room *room)
{
    t->room = *room;
    t->chain.frames = room->frames;
    t->chain.max_frames = room->max_frames;
    t->chain.entries = room->entries;
    t->chain.anchors = room->anchors;
    t->chain.max_entries = room->max_entries;
}

/* Returns what the thread's samples, and those that were lost, stand for, in periods. */
static inline uint64_t thread_given_weight(struct thread *t)
{
    uint64_t given = counter_get(&t->counters.recorded_weight);
    for (int i = 0; i < N_LOSSES; i++)
        given += counter_get(&t->counters.lost_weight[i]);
    return given;
}

/* Returns whether the thread's ring is so full that it should be drained soon. */
static inline bool thread_is_urgent(const struct thread *t)
{
    return ring_used(&t->ring) > t->limits.ring_bytes / 4;
}

struct registry {
    _Atomic(struct thread *) *of_tid; /* a thread's own; pages that none looks at take no memory */
    _Atomic(struct thread *) stock[THREADS_STOCK];
    _Atomic(struct thread *)
        claimed; /* since the drain thread looked, and what was too many of the stock */

    /* The drain thread's own. */
    struct thread **numbered; /* NULL: a free place */
    size_t numbered_bytes;
    uint32_t n, lowest_free; /* places below n are in use, or were */
    struct thread *unnumbered;
};

int registry_init(struct registry *r);  /* of zeroes.  0 or -ENOMEM */
void registry_free(struct registry *r); /* and all records, when no handler runs any more */

/* Makes records for registry_claim, up to THREADS_STOCK. */
void registry_stock(struct registry *r, const struct thread_limits *limits);

/* Returns the record of `tid`, the calling thread: its own or one from stock; NULL: none in stock.
 * Async-signal-safe. */
struct thread *registry_claim(struct registry *r, pid_t tid);

/* Makes the record of thread `tid` and publishes it, or numbers the one that it has claimed.  Returns NULL if there is
 * no memory. */
struct thread *registry_add(struct registry *r, pid_t tid, uint32_t index,
                            const struct thread_limits *limits);

/* Undoes registry_add's numbering; the record stays. */
void registry_unnumber(struct registry *r, struct thread *t);

/* Takes `t` out and frees it; its thread must be gone, or no handler able to run. */
void registry_remove(struct registry *r, struct thread *t);

/* Returns the next numbered record from place `*at` on, which it moves; NULL: no more.  Start with *at = 0. */
struct thread *registry_next(struct registry *r, uint32_t *at);

/* Takes a record that was claimed and is not numbered yet; NULL: no more.  registry_keep_claimed puts back one that
 * still is not. */
struct thread *registry_take_claimed(struct registry *r);
void registry_keep_claimed(struct registry *r, struct thread *t);

/* Returns the record of `tid`, or NULL.  Async-signal-safe. */
struct thread *registry_find(const struct registry *r, pid_t tid);

#endif
