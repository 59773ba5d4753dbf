/* Pausing and going on: the threads' clocks stop, and what they did meanwhile counts nowhere. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "session.h"
#include "clock.h"
#include "period_correction.h"

#define IDLE_MAX_NS 20000000ull

static uint64_t ours_ns(struct session *s)
{
    return clock_read_ns(clock_of_thread(atomic_load(&s->collector_tid)));
}

/* What the threads did since they were paused counts nowhere. */
void session_skip_pause(struct session *s)
{
    uint32_t at = 0;
    s->counted_from_ns = clock_now_ns();
    s->start_cpu_ns += clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - s->paused_cpu_ns;
    s->start_ours_ns += ours_ns(s) - s->paused_ours_ns;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        uint64_t now = engine_cpu_ns(s, t);
        t->base_cpu_ns += now - t->paused_cpu_ns;
        t->cpu_ns = now; /* no handler runs that could write it */
        t->carry_ns = 0;
        t->sampled_ns = 0;
        counter_set(&t->counters.cpu_ns, now);
        counter_set(&t->counters.n_unread, 0);
        t->n_waits = 0;
        t->owed_ns = 0;
        t->covered_cpu_ns = t->looked_cpu_ns = now;
        period_correction_restart(&t->correction);
    }
    s->skips_new = true;
    thread_scan(s); /* those that began in the pause, before signals come */
    s->skips_new = false;
}

void session_pause_until(struct session *s, uint64_t time_ns)
{
    if (time_ns == UINT64_MAX) {
        s->paused_cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        s->paused_ours_ns = ours_ns(s);
    }
    atomic_store(&s->paused_until_ns, time_ns);
    atomic_store(&s->state, SESSION_PAUSED);
    engine_enable_all(s, false);
    session_nudge(s); /* it is to see the end of it */
}

void session_pause(struct session *s)
{
    if (atomic_load(&s->paused_until_ns) == UINT64_MAX)
        return;
    session_pause_until(s, UINT64_MAX);
    thread_scan(s);
    wait_for_handlers(); /* they fall asleep no more */
    if (s->clock == CLOCK_WALL)
        engine_enable_all(s, false); /* one that woke may have set its timer again */
    session_each(s, thread_end_ticks);
    collector_drain(s);
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        sleep_detection_end(s, t);
        t->paused_cpu_ns = engine_cpu_ns(s, t);
    }
}

/* What the calling thread did for us just now is none of its own.  No handler runs that could write its clock. */
static void skip_own_work(struct session *s)
{
    struct thread *t = registry_find(&s->registry, (pid_t)syscall(SYS_gettid));
    uint64_t now = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!t || !t->index)
        return;
    t->base_cpu_ns += now - t->cpu_ns;
    t->cpu_ns = now;
    counter_set(&t->counters.cpu_ns, now);
}

void session_resume(struct session *s)
{
    if (atomic_load(&s->paused_until_ns) != UINT64_MAX)
        return;
    session_skip_pause(s);
    if (s->exec_until_ns > clock_now_ns()) {
        session_pause_until(s, s->exec_until_ns);
        return;
    }
    skip_own_work(s);
    atomic_store(&s->idle_tid, 0);
    atomic_store(&s->paused_until_ns, 0);
    atomic_store(&s->state, SESSION_RUNNING);
    engine_enable_all(s, true);
}

/* Timers expire at the kernel's ticks, and forget what is since the last one: time that was idle. */
static void skip_idle_rest(struct session *s, struct thread *t)
{
    uint64_t since = counter_get(&t->counters.cpu_ns);
    if (t->tid == s->idle_tid && since < s->idle_cpu_ns)
        since = s->idle_cpu_ns;
    if (session_clock(s)->is_tick_bound && since && t->paused_cpu_ns > since)
        t->idle_rest_ns += t->paused_cpu_ns - since;
}

void session_pause_idle(struct session *s)
{
    if (!atomic_load(&s->idle) || atomic_load(&s->paused_until_ns) ||
        clock_now_ns() - atomic_load(&s->idle_since_ns) < IDLE_MAX_NS)
        return;
    session_pause(s);
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        skip_idle_rest(s, t);
    if (!atomic_load(&s->idle)) /* it may not have seen the pause */
        session_resume(s);
}
