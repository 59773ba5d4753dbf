/* kept_calls.h - single calls of chosen functions and regions: how long each took, and when.
 *
 * Each path's durations are counted in a histogram.  The calls themselves go to a ring, all of them
 * at first; of a path that has many only the slowest, so that memory and file stay bounded.  A
 * generator's or coroutine's call is what lies between its first begin and its last end, in several
 * turns.
 *
 * Context: with the GIL; what the drain reads is said.
 */
#ifndef PYH_KEPT_CALLS_H
#define PYH_KEPT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "map.h"
#include "ring.h"

#define CALLS_RING (1u << 20)
#define CALLS_AT_ONCE                                                                              \
    4096 /* calls of a path that are kept before the bar is raised: 0, p90, p99... */
#define CALLS_TURNS_MAX (1u << 20) /* turns of calls that have several */
#define CALLS_OCTAVE 8             /* buckets for each power of two */
#define CALLS_FIRST 6              /* the first bucket ends at 2^6 ticks */
#define CALLS_BUCKETS 320

enum call_flags {
    CALL_ENDED = 1,  /* the call's last turn */
    CALL_RAISED = 2, /* it ended by an exception */
    CALL_PARTIAL =
        4, /* it began before profiling did, or was still running at its end: not in the histogram */
};

/* A path's durations, in ticks.  Bucket 8p+q: from 2^(6+p) (1 + q/8) up; the first one from 0, the last
 * one is open.  Relaxed counters, read by the drain. */
struct call_times {
    struct call_times *next;
    uint32_t node;
    _Atomic uint32_t bucket[CALLS_BUCKETS];
    _Atomic uint64_t n, sum, max;
    uint32_t n_kept, n_raised_bar;
    uint64_t bar;       /* single calls below are not kept */
    uint64_t n_written; /* the drain's */
    uint32_t place;     /* the drain's, from 1: of its record among the thread's */
};

enum call_record { CALL_TURN = 1, CALL_ATTRIBUTES };

struct call_turn {
    struct ring_record head;
    uint64_t begin;        /* ticks: of the call */
    uint64_t since, until; /* of the turn */
    uint32_t node;
    uint32_t serial; /* joins a call's turns, and its attributes; 0: it has neither */
    uint32_t flags;
    uint32_t pad;
};

struct call_attributes {
    struct ring_record head;
    uint32_t serial;
    uint32_t length;
    unsigned char fields[]; /* region_attributes.h */
};

/* A thread's own. */
struct calls {
    struct ring ring;
    struct map of_node;                 /* node -> struct call_times * */
    _Atomic(struct call_times *) first; /* a list that only grows at its head: for the drain */
    _Atomic uint64_t n_lost;            /* turns that found the ring full */
    struct call_times *memory;          /* a block of them */
    uint32_t n_left;
};

/* A call that may have several turns. */
struct open_call {
    uint64_t begin;
    uint32_t serial;
    uint32_t next_free;
    bool partial;
};

/* The session's: `suspended` maps frames of generators to calls. */
struct open_calls {
    struct open_call *call;
    uint32_t capacity, n, free, serials, n_turns;
    _Atomic bool any; /* some thread has a ring */
    struct map suspended;
};

/* 0: no memory.  Valid until open_calls_end. */
uint32_t open_calls_begin(struct open_calls *o, uint64_t begin, bool partial);
void open_calls_end(struct open_calls *o, uint32_t call);
void open_calls_suspend(struct open_calls *o, uint32_t call, uint64_t frame);
uint32_t open_calls_resume(struct open_calls *o, uint64_t frame); /* 0: not known */
void open_calls_clear(struct open_calls *o);

/* A turn ends; `call`: 0, or what open_calls_begin returned.  Fills the rest of `turn` in.  True: it is
 * in the ring. */
bool calls_turn(struct calls *c, struct open_calls *o, uint32_t call, struct call_turn *turn);
void calls_attributes(struct calls *c, uint32_t serial, const unsigned char *fields,
                      uint32_t length);
void calls_clear(struct calls *c);

#endif
