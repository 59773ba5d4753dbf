/* newborn.h - a clock for the first milliseconds of a thread that began while a session runs.
 *
 * A thread that ends before its own clock has expired once would never be sampled: an inherited event
 * (sigtrap.h) expires after a whole period, and without inheritance the collector has to see the thread first.  So a
 * thread that begins arms a timer on its own CPU clock, which the kernel looks at in its ticks.  A tick
 * that finds the thread running has nothing to do with when the thread began, so ticks meet threads in
 * proportion to their CPU time, however short they are.
 *
 * A young thread has ticks alone.  Its own clock would come in the same place of each thread, a period after the begin, and stand
 * for what came before: of threads of a period, for what they take to begin.  When it has run for a few ticks its own clock takes
 * over, which may run by then (inherited: its signals are dropped until then) or is opened.
 *
 * A native thread tells of itself by the first sample of its own clock.  From there on it has ticks, too.
 *
 * A tick's sample stands for the time between two ticks, or for its part of the time that such threads were found to have run when
 * they ended.
 *
 * By wall-clock time the timer is the thread's own clock, with a first period of any length, and the collector takes it over.
 *
 * A timer belongs to the process, and stays when its thread has ended: each has its place here until the collector
 * finds that.
 *
 * Context: newborn_begin, newborn_begun_ns, newborn_end and newborn_drop are async-signal-safe and wait for nobody; the rest is for the collector,
 * or under the session's lock.
 */
#ifndef PYH_NEWBORN_H
#define PYH_NEWBORN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session;

#define NEWBORN_MAX 1024 /* threads that begin within two looks of the collector, and are young */
#define NEWBORN_TICKS 8  /* where clocks are not inherited: after so many it gets its own */
#define NEWBORN_FEW_TICKS 2 /* where they are: after so many that one counts */
/* What a tick's signal brings along, in whichever session: "pyhytick". */
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

/* The calling thread, whose number is `tid`, has begun.  False: without a place, or a timer, it has its own clock alone.
 * `has_end`: newborn_end comes. */
bool newborn_begin(struct session *s, pid_t tid, bool has_end);

/* The calling thread ends, or its own clock takes over: what it ran until then, by `cpu_ns`, its CPU clock, is the ticks'. */
void newborn_end(struct session *s, pid_t tid, uint64_t cpu_ns);

/* Ends its timer. */
void newborn_drop(struct newborns *n, pid_t tid);

bool newborn_has(struct newborns *n, pid_t tid);

/* The calling thread's CPU time before its first Python function, for which nothing is to stand but what meets it; 0: not known. */
uint64_t newborn_begun_ns(struct newborns *n, pid_t tid);

/* The thread's timer, which is the caller's from now on; -1: it has none. */
int newborn_take(struct newborns *n, pid_t tid);

/* Ends the timers of threads that have ended. */
void newborns_sweep(struct newborns *n);
/* The session pauses, or goes on. */
void newborns_enable(struct session *s, bool enable);
/* Ends all timers.  No thread begins any more that could add one. */
void newborns_close(struct newborns *n);

#endif
