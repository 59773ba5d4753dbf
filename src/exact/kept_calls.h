/* kept_calls.h - single calls of chosen functions and regions: how long each took, and when.
 *
 * Each path's durations are counted in a histogram.  The calls themselves go to a queue, all of them up to a bound on
 * the session's; from then on of each path the slowest, and of the others a uniform sample that gets thinner, so memory
 * and file stay bounded.  A generator's or coroutine's call is what lies between its first begin and its last end, in
 * several turns; beyond a bound of their own there is a sample of these alone, for nobody knows at a turn's end how
 * long the call will take.
 *
 * Context: with the GIL (native regions also without: then two threads may both take the last place below a bound);
 * what the drain reads is marked.
 */
#ifndef PYH_KEPT_CALLS_H
#define PYH_KEPT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "block_queue.h"
#include "map.h"

#define CALLS_MAX (1u << 20)   /* kept of the session's, and turns of those that have several */
#define CALLS_AT_ONCE 4096     /* of a path's slowest, before the bar is raised: p90, p99... */
#define CALLS_SAMPLED 1024     /* of a path's others, before half as many are taken */
#define CALLS_SAMPLE_SHIFT 6   /* at first one in 2^6 */
#define CALLS_QUEUE_FIRST 4096 /* bytes */
#define CALLS_OCTAVE 8         /* buckets for each power of two */
#define CALLS_FIRST 6          /* the first bucket ends at 2^6 ticks */
#define CALLS_BUCKETS 320

enum call_flags {
    CALL_ENDED = 1,  /* the call's last turn */
    CALL_RAISED = 2, /* it ended by an exception */
    CALL_PARTIAL =
        4, /* it began before profiling did, or was still running at its end: not in the histogram */
    CALL_FIRST = 8,       /* the call's first turn */
    CALL_USAGE = 32,      /* struct call_usage follows */
    CALL_ATTRIBUTES = 16, /* no turn: the attributes of the region's call `serial` follow */
};

/* A path's durations, in ticks.  Bucket 8p+q: from 2^(6+p) (1 + q/8) up; the first one from 0, the last
 * one is open.  Relaxed counters, read by the drain. */
struct call_times {
    struct call_times *next;
    uint32_t node;
    _Atomic uint32_t bucket[CALLS_BUCKETS];
    _Atomic uint64_t n, sum, max;
    uint32_t n_slow, n_raised_bar;
    uint32_t n_sampled, sample_shift;
    uint64_t bar;       /* beyond the bound faster ones are sampled */
    uint64_t n_written; /* the drain's */
    uint32_t place;     /* the drain's, from 1: of its record among the thread's */
};

/* What is in the queue, and in the spool: 32 bytes, then `more` bytes padded to 8. */
struct call_turn {
    uint64_t since, until; /* ticks */
    uint32_t node;
    uint32_t serial;      /* joins a call's turns, and its attributes; 0: it has neither */
    uint16_t flags;       /* enum call_flags */
    uint16_t weight_bits; /* it stands for 2^n calls */
    uint32_t more;        /* struct call_usage, or region_attributes.c */
};

enum usage_kinds { USAGE_CPU = 1, USAGE_MEMORY = 2, USAGE_PROCESS = 4 };
#define USAGE_KINDS 3

#define USAGE_UNKNOWN UINT64_MAX

/* What a thread has used.  The kernel counts user and system time by its ticks, so they lag behind `cpu_ns` by one. */
struct usage_reading {
    uint64_t cpu_ns, user_ns, system_ns, process_ns, resident_bytes;
    uint32_t minor_faults, major_faults, voluntary, involuntary;
};

/* Of a turn: what its thread used meanwhile, and the process. */
struct call_usage {
    uint32_t kinds, pad;
    uint64_t begin_ns; /* CPU time of the thread when it began */
    uint64_t cpu_ns, user_ns, system_ns, process_ns;
    uint64_t resident_begin, resident_end; /* bytes; USAGE_UNKNOWN */
    uint32_t minor_faults, major_faults;
    uint32_t voluntary, involuntary; /* context switches */
};

/* A thread's own. */
struct calls {
    struct block_queue queue;           /* to the drain */
    struct map of_node;                 /* node -> struct call_times * */
    _Atomic(struct call_times *) first; /* a list that only grows at its head: for the drain */
    _Atomic uint64_t n_lost;            /* turns for which there was no memory */
    struct call_times *memory;          /* a block of them */
    uint32_t n_left;
};

/* A call that may have several turns. */
struct open_call {
    uint64_t begin;
    uint32_t serial;
    uint32_t next_free;
    uint32_t weight_bits;
    bool partial, has_turns, is_kept;
};

/* The session's: `suspended` maps frames of generators to calls. */
struct open_calls {
    struct open_call *call;
    uint32_t capacity, n, free, serials;
    uint32_t max_kept, n_kept;        /* a bound, and how many were before it was reached */
    uint32_t n_turns;                 /* the same bound holds for them */
    uint32_t n_sampled, sample_shift; /* calls with several turns, beyond it */
    uint64_t random;
    _Atomic bool any; /* some call was kept */
    struct map suspended;
};

/* Returns a call that is valid until open_calls_end, or 0 if there is no memory. */
uint32_t open_calls_begin(struct open_calls *o, uint64_t begin, bool partial);
void open_calls_end(struct open_calls *o, uint32_t call);
void open_calls_suspend(struct open_calls *o, uint32_t call, uint64_t frame);
uint32_t open_calls_resume(struct open_calls *o, uint64_t frame); /* 0: not known */
void open_calls_clear(struct open_calls *o);

/* Returns whether calls that begin now may not be kept. */
static inline bool open_calls_is_full(const struct open_calls *o)
{
    return o->n_kept >= o->max_kept || o->n_turns >= o->max_kept;
}

/* Ends a turn and fills in the rest of `turn`; `call` is 0, or what open_calls_begin returned; `usage` is NULL, or what
 * it used.  Returns whether the turn is kept. */
bool calls_turn(struct calls *c, struct open_calls *o, uint32_t call, struct call_turn *turn,
                const struct call_usage *usage);
void calls_attributes(struct calls *c, struct open_calls *o, uint32_t serial,
                      const unsigned char *fields, uint32_t length);
void calls_clear(struct calls *c);

#endif
