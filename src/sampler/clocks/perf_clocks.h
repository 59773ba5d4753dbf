/* perf_clocks.h - the perf events that drive the samples: one or more for each thread, and their rings.
 *
 * A task-clock software event (man 2 perf_event_open).  As the clock perf_event every overflow sends SIGPROF to the thread
 * that it counts (F_SETSIG, F_SETOWN_EX); as the clock sigtrap see sigtrap.h.
 *
 * Where samples know their place in the kernel (kernel_ring.h) an event that threads inherit is for one
 * processor, and a thread has as many as there are processors; all of a processor share a ring.
 *
 * Context: the collector thread, and under the session's lock sampler_start, _pause, _resume, _stop.
 */
#ifndef PYH_PERF_CLOCKS_H
#define PYH_PERF_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel_ring.h"

struct session;
struct thread;

struct perf_clock {
    uint32_t thread; /* its number; 0: it has ended, and others live by its event (sigtrap.h) */
    int cpu;         /* -1: any; below: it is no clock */
    int fd;
    uint64_t id;
    struct kernel_ring ring;
};

struct perf_clocks {
    struct perf_clock *of; /* does not move: a forked child reads it */
    int n, max;
    int n_kept;           /* threads that have ended whose events are kept */
    int n_cpus;           /* of the machine, also those that are not online now */
    int next_sought;      /* perf_clocks_seek_closed */
    int n_expected;       /* threads that wait for their first clock, about */
    bool kernel_frames;   /* the events write where in the kernel they came, too */
    uint32_t n_mute;      /* those that should and do not: too many, or too little locked memory */
    uint64_t kernel_lost; /* ticks of which it is not known where in the kernel they came */
};

int perf_clocks_init(struct perf_clocks *p, int max); /* 0 or -ENOMEM */
void perf_clocks_free(struct perf_clocks *p);

/* Opens the clock of thread `t`.  Returns 0, or -errno with nothing open. */
int perf_clocks_open(struct session *s, struct thread *t);
void perf_clocks_close(struct session *s, struct thread *t);

/* Keeps threads that the living thread `t` begins from now on from exchanging their events with it.
 *
 * Where the kernel changes from one thread to another that has the same events, it lets them exchange these, and so the time
 * until the next overflow (kernel/events/core.c, perf_event_context_sched_out).  A new thread's is a whole period:
 * who begins many would always be sampled a period after it began one.  The kernel does not exchange those of
 * a thread that has an event which is inherited and whose samples have its count (nr_no_switch_fast; Linux 6.13).  Without
 * the exchange a change of threads takes 5 us more (a timer is stopped and begun), so who begins few is left as it is. */
void perf_clocks_keep_apart(struct session *s, struct thread *t);

/* Keeps the events of a thread that has ended, if others may live by them. */
void perf_clocks_keep(struct session *s, struct thread *t);
void perf_clocks_close_kept(struct session *s);

/* Call it in a forked child, which has the descriptors but not the rings. */
void perf_clocks_abandon(struct session *s);

void perf_clocks_set_period(struct session *s, struct thread *t);
void perf_clocks_enable(struct session *s, bool enable);

/* Ends events whose descriptor the program has closed: a ring would keep them.  Looks at a few, each time at others;
 * at all where one is closed: who closes one closes more. */
void perf_clocks_seek_closed(struct session *s);

/* Returns what the thread's events counted, in nanoseconds. */
uint64_t perf_clocks_counted_ns(struct session *s, const struct thread *t);

/* Takes what is in the rings (kernel_ring_read).  Returns false if there is none. */
bool perf_clocks_read(struct session *s, kernel_ring_take take, void *arg);

#endif
