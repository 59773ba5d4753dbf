/* newborn.h - a clock for the first milliseconds of a thread that began while a session runs.
 *
 * A thread that ends before its own clock has expired once would never be sampled: an inherited event
 * (sigtrap.h) expires after a whole period, and without inheritance the collector has to see the thread first.  So a
 * thread that begins arms a timer on its own CPU clock, which the kernel looks at in its ticks.  A tick
 * that finds the thread running has nothing to do with when the thread began, so ticks meet threads in
 * proportion to their CPU time, however short they are.
 *
 * Up to the first signal of its own clock a thread has ticks alone: that comes in the same place of each thread, a
 * period after its begin, and would stand for what it takes to begin.  From there on each sample of its own clock
 * stands for the time since the one before, and a tick in there is dropped; what comes after the last of them, until
 * the thread ends, the tick has.  So it is held back until the one or the other is known (handler.c).  After a few
 * samples of its own clock a thread has no need of ticks any more, and its timer goes.  Where the own clock is bound to
 * ticks itself a thread has ticks alone until it ran for some.
 *
 * A tick's sample stands for the time between two ticks, or for its part of the time that such threads were found to
 * have run.
 *
 * By wall-clock time the timer is the thread's own clock, with a first period of any length, and the collector takes it
 * over.
 *
 * A timer belongs to the process, and stays when its thread has ended: each has its place here until the collector
 * finds that.
 *
 * Context: newborn_begin, newborn_share, newborn_end and newborn_drop are async-signal-safe and wait for nobody; the
 * rest is for the collector, or under the session's lock.
 */
#ifndef PYH_NEWBORN_H
#define PYH_NEWBORN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session;

#define NEWBORN_MAX 1024 /* threads that begin within two looks of the collector, and are young */
#define NEWBORN_TICKS 8  /* where its own clock is tick-bound, too: after so many it gets that */
#define NEWBORN_OWN_SAMPLES 8 /* of its own clock, by which a thread is young no more */
/* A tick's signal carries this, in whichever session: "pyhytick". */
#define NEWBORN_DATA 0x707968797469636bull

struct newborn {
    _Atomic pid_t tid; /* 0: the place is free; -1: it changes hands */
    int timer;         /* the kernel's number */
    bool has_end;      /* newborn_end is going to be called */
    uint64_t begun_cpu_ns;
};

struct newborns {
    struct newborn *of; /* NEWBORN_MAX; NULL: none are kept */
    _Atomic int n;
    _Atomic uint64_t shared_ns; /* newborn_end */
};

/* The calling thread, whose number is `tid`, has begun.  Returns false if, without a place or a timer, it has its own
 * clock alone.  With `has_end`, newborn_end comes. */
bool newborn_begin(struct session *s, pid_t tid, bool has_end);

/* Gives the ticks what the calling thread ran, from `from_ns` or its begin to `cpu_ns` by its CPU clock.  Returns how
 * long that is; 0: it is not known. */
uint64_t newborn_share(struct session *s, pid_t tid, uint64_t from_ns, uint64_t cpu_ns);

/* The calling thread ends, young or not: what it ran is known from here on, and if it is young the ticks have what it
 * ran since the last sample of its own clock. */
void newborn_end(struct session *s, pid_t tid);

/* Ends the thread's timer. */
void newborn_drop(struct newborns *n, pid_t tid);

bool newborn_has(struct newborns *n, pid_t tid);

/* Returns the thread's timer, which is the caller's from now on; -1: it has none. */
int newborn_take(struct newborns *n, pid_t tid);

/* Ends the timers of threads that have ended. */
void newborns_sweep(struct newborns *n);
/* Call it where the session pauses, or goes on. */
void newborns_enable(struct session *s, bool enable);
/* Ends all timers, when no thread begins any more that could add one. */
void newborns_close(struct newborns *n);

#endif
