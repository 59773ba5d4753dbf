/* perf_event.h - task-clock events of one thread (man 2 perf_event_open).
 *
 * Context: any thread; not async-signal-safe.
 */
#ifndef PYH_PERF_EVENT_H
#define PYH_PERF_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Both give a new descriptor or -errno.  The event is disabled; `tid` 0: the calling thread. */
int perf_event_open_sigprof(pid_t tid, uint64_t period_ns, bool exclude_kernel);
int perf_event_open_sigtrap(pid_t tid, uint64_t period_ns); /* see sigtrap.h */

/* The same descriptor with a number from `floor` on, and the event's id; closes `fd`.  Or -errno. */
int perf_event_settle(int fd, int floor, uint64_t *id);

/* Whether `fd` is still that event: the program may have closed it and use the number itself. */
bool perf_event_is(int fd, uint64_t id);

#endif
