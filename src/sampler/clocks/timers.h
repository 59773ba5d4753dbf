/* timers.h - timers of threads: on their CPU clocks, or by wall-clock time.
 *
 * timer_create on the thread's CPU clock (or CLOCK_MONOTONIC) with SIGEV_THREAD_ID; they are bound to the kernel's tick,
 * so a sample stands for 1 + overrun periods.
 *
 * Context: as clock_ops.h.
 */
#ifndef PYH_TIMERS_H
#define PYH_TIMERS_H

#include <stdbool.h>

struct session;
struct thread;

int timers_open(struct session *s, struct thread *t); /* 0 or -errno */
void timers_close(struct session *s, struct thread *t);
void timers_set_period(struct session *s, struct thread *t);
void timers_enable_all(struct session *s, bool enable);

#endif
