/* perf_event.h - task-clock events, and breakpoints, of one thread (man 2 perf_event_open).
 *
 * Context: any thread; not async-signal-safe.
 */
#ifndef PYH_PERF_EVENT_H
#define PYH_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Which event: of thread `tid` (0: the calling one), on processor `cpu` (-1: on any). */
struct perf_event_wish {
    pid_t tid;
    int cpu;
    uint64_t period_ns;
    bool sigtrap; /* see sigtrap.h; else SIGPROF, which the caller sets up */
    bool exclude_kernel;
    bool samples; /* also writes what kernel_ring.h reads */
    uint64_t
        call; /* not the time, but each call of the function that begins there, with sigtrap; 0: the time */
};

/* A new descriptor or -errno.  The event is disabled. */
int perf_event_open(const struct perf_event_wish *wish);

/* The same descriptor with a number from `floor` on, and the event's id; closes `fd`.  Or -errno. */
int perf_event_settle(int fd, int floor, uint64_t *id);

/* Whether `fd` is still that event: the program may have closed it and use the number itself. */
bool perf_event_is(int fd, uint64_t id);

#endif
