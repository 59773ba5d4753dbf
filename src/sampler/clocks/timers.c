/* timers.c - timers of threads: on their CPU clocks, or by wall-clock time.
 *
 * timer_create on the thread's CPU clock (or CLOCK_MONOTONIC) with SIGEV_THREAD_ID; they are bound to the kernel's tick,
 * so a sample stands for 1 + overrun periods.
 *
 * Context: as clock_ops.h.
 */
#include "session.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "clock.h"
#include "clock_ops.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

uint64_t timers_tick_ns(void)
{
    struct timespec tick;
    long error = arch_syscall6(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, (long)&tick, 0, 0, 0, 0);
    return error || tick.tv_sec ? 4000000 : (uint64_t)tick.tv_nsec;
}

/* The first expiry comes after any part of a period, each as likely: after a whole one, a thread would always have
 * fewer samples than periods, none if it lives shorter than that; and threads would be sampled in step. */
static int arm(const struct session *s, struct thread *t)
{
    uint64_t period_ns = atomic_load(&s->period_ns);
    return session_set_timer(t->timer, session_random((uint64_t)t->tid, period_ns), period_ns);
}

static int create_timer(int signal, void *value, pid_t tid, clockid_t clock, int *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal};
    event.sigev_value.sival_ptr = value;
    event.sigev_notify_thread_id = tid;
    return (int)arch_syscall6(SYS_timer_create, clock, (long)&event, (long)timer, 0, 0, 0);
}

int timers_open(struct session *s, struct thread *t)
{
    clockid_t cpu = clock_of_thread(t->tid);
    bool wall = s->clock == CLOCK_WALL;
    int signal = session_clock(s)->signal;
    if (wall && !names_choose(s, t))
        return 0;
    t->ticks_only = !wall && newborn_has(&s->newborns, t->tid) &&
                    clock_read_ns(cpu) < NEWBORN_TICKS * s->tick_ns;
    if (t->ticks_only)
        return 0;
    int born = newborn_take(&s->newborns, t->tid);
    if (wall && born >= 0) {
        t->timer = born;
        t->has_timer = 1;
        t->has_cpu_timer = !create_timer(signal, session_waking(s), t->tid, cpu, &t->cpu_timer);
        return 0;
    }
    if (born >= 0)
        arch_syscall6(SYS_timer_delete, born, 0, 0, 0, 0, 0);
    int error = create_timer(signal, s, t->tid, wall ? CLOCK_MONOTONIC : cpu, &t->timer);
    if (error)
        return error;
    t->has_timer = 1;
    t->has_cpu_timer = wall && !create_timer(signal, session_waking(s), t->tid, cpu, &t->cpu_timer);
    return arm(s, t);
}

int timers_open_for_kernel(struct session *s, struct thread *t)
{
    int error =
        create_timer(session_clock(s)->signal, s, t->tid, clock_of_thread(t->tid), &t->timer);
    if (error)
        return error;
    atomic_store(&t->ticks_in_kernel, true);
    t->has_timer = 1;
    error = arm(s, t);
    if (error)
        timers_close(s, t);
    return error;
}

void timers_close(struct session *s, struct thread *t)
{
    (void)s;
    if (t->has_timer)
        arch_syscall6(SYS_timer_delete, t->timer, 0, 0, 0, 0, 0);
    if (t->has_cpu_timer)
        arch_syscall6(SYS_timer_delete, t->cpu_timer, 0, 0, 0, 0, 0);
    t->has_timer = 0;
    t->has_cpu_timer = false;
    atomic_store(&t->ticks_in_kernel, false);
}

void timers_set_period(struct session *s, struct thread *t)
{
    if (t->has_timer)
        arm(s, t);
}

void timers_enable_all(struct session *s, bool enable)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        if (t->has_cpu_timer && !enable)
            session_set_timer(t->cpu_timer, 0, 0);
        if (t->has_timer && enable)
            arm(s, t);
        else if (t->has_timer)
            session_set_timer(t->timer, 0, 0);
    }
}

const char *timers_must_leave(struct session *s, bool thorough)
{
    (void)s;
    (void)thorough;
    return signal_is_taken(SIGPROF) ? NULL : "the program handles SIGPROF";
}

#define BY_TIMERS                                                                                  \
    .is_tick_bound = true, .open = timers_open, .close = timers_close, .retire = timers_close,     \
    .set_period = timers_set_period, .enable_all = timers_enable_all
#define BY_SIGPROF .signal = SIGPROF, .must_leave = timers_must_leave

struct clock_ops clock_timer_spare = {.engine = ENGINE_TIMER, BY_TIMERS};
struct clock_ops clock_monotonic_spare = {.engine = ENGINE_MONOTONIC, BY_TIMERS};
const struct clock_ops clock_timer = {
    .engine = ENGINE_TIMER, BY_TIMERS, BY_SIGPROF, .instead = &clock_timer_spare};
const struct clock_ops clock_monotonic = {
    .engine = ENGINE_MONOTONIC, BY_TIMERS, BY_SIGPROF, .instead = &clock_monotonic_spare};
