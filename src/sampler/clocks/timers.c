#include "timers.h"

#include <errno.h>
#include <time.h>

#include "clock.h"
#include "clock_ops.h"
#include "session.h"
#include "thread_names.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* The first expiry comes after any part of a period, each as likely: after a whole one, a thread would always have
 * fewer samples than periods, none if it lives shorter than that; and threads would be sampled in step. */
static int arm(const struct session *s, struct thread *t)
{
    uint64_t period_ns = atomic_load(&s->period_ns), x = clock_now_ns() ^ (uint64_t)t->tid << 32;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; /* the finalizer of SplitMix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return session_set_timer(t->timer, 1 + (x ^ x >> 31) % period_ns, period_ns);
}

static int create_timer(void *value, pid_t tid, clockid_t clock, void **timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr = value;
    event.sigev_notify_thread_id = tid;
    int created; /* the kernel's number of it */
    long error = arch_syscall6(SYS_timer_create, clock, (long)&event, (long)&created, 0, 0, 0);
    if (!error)
        *timer = (void *)(intptr_t)created;
    return (int)error;
}

int timers_open(struct session *s, struct thread *t)
{
    clockid_t cpu = clock_of_thread(t->tid);
    bool wall = s->clock == CLOCK_WALL;
    if (wall && !names_choose(s, t))
        return 0;
    int error = create_timer(s, t->tid, wall ? CLOCK_MONOTONIC : cpu, &t->timer);
    if (error)
        return error;
    t->has_timer = 1;
    t->has_cpu_timer = wall && !create_timer(session_waking(s), t->tid, cpu, &t->cpu_timer);
    return arm(s, t);
}

void timers_close(struct session *s, struct thread *t)
{
    (void)s;
    if (t->has_timer)
        arch_syscall6(SYS_timer_delete, (long)t->timer, 0, 0, 0, 0, 0);
    if (t->has_cpu_timer)
        arch_syscall6(SYS_timer_delete, (long)t->cpu_timer, 0, 0, 0, 0, 0);
    t->has_timer = 0;
    t->has_cpu_timer = false;
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

#define BY_TIMERS                                                                                  \
    .signal = SIGPROF, .is_tick_bound = true, .open = timers_open, .close = timers_close,          \
    .retire = timers_close, .set_period = timers_set_period, .enable_all = timers_enable_all

const struct clock_ops clock_timer = {.engine = ENGINE_TIMER, BY_TIMERS};
const struct clock_ops clock_monotonic = {.engine = ENGINE_MONOTONIC, BY_TIMERS};
