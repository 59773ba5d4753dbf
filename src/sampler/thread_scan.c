#include "thread_scan.h"

#include <unistd.h>

#include "thread_registration.h"
#include "asleep.h"
#include "clock.h"
#include "drain.h"
#include "engine.h"
#include "session.h"

#define SCAN_REST 10
#define COVER_NS 20000000ull

/* A thread that has ended, once all that it left is in the spool: its samples may wait for the names
 * of code objects that came another way. */
static void retire(struct session *s, struct thread *t)
{
    if (t->seen || ring_peek(&t->ring) || thread_lives(t->tid))
        return;
    asleep_end(s, t);
    drain_settle(s->drain, t);
    collector_snapshot(s, t);
    engine_retire(s, t);
    drain_remove_thread(s->drain, t);
    registry_remove(&s->registry, t);
}

void thread_cover(struct session *s, struct thread *t)
{
    uint64_t signals = collector_signals(s, t);
    uint64_t cpu = t->last_cpu_ns;
    if (t->has_event || t->has_timer || !t->seen)
        return;
    if (signals != t->covered_signals || !t->covered_cpu_ns) {
        t->covered_signals = signals;
        t->covered_cpu_ns = cpu;
    } else if (cpu > t->covered_cpu_ns + COVER_NS + 8 * atomic_load(&s->period_ns)) {
        t->cpu_ns = cpu; /* no handler runs that could write it: until here it was missed */
        t->carry_ns = 0;
        engine_open(s, t);
    }
}

static bool any_ended(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        if (!t->seen)
            return true;
    return false;
}

static void see(void *session, pid_t tid, pid_t listed)
{
    struct session *s = session;
    if (tid == atomic_load(&s->collector_tid))
        return;
    struct thread *t = registry_find(&s->registry, tid);
    if (t && t->index)
        t->seen = 1;
    else
        s->look_again |= !admit(s, tid, listed);
    if (t && !t->listed)
        t->listed = listed;
}

static void see_if_alive(struct session *s, struct thread *t)
{
    (void)s;
    t->seen |= thread_lives(t->tid);
}

/* Those that are known, the first thread and the one that began: others tell of themselves, or not. */
static void do_without_list(struct session *s)
{
    pid_t first[] = {getpid(), s->measuring_tid};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (thread_lives(first[i]))
            see(s, first[i], task_list_number(&s->tasks, first[i]));
    session_each(s, see_if_alive);
}

void thread_scan(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        t->seen = 0;
    s->look_again = false;
    bool complete = task_list_read(&s->tasks, see, s);
    admit_claimed(s);
    if (!complete)
        do_without_list(s);
    if (!any_ended(s))
        return;
    s->look_again = true; /* it may have to wait */
    s->changed_ns = clock_now_ns();
    collector_drain(s);
    session_each(s, retire);
}

/* Where there are thousands of threads it takes milliseconds: it is not to take more than one in ten. */
void thread_scan_in_turn(struct session *s, uint64_t now)
{
    if (session_clock(s)->is_inherited) {
        admit_claimed(s);
        registry_stock(&s->registry, &s->limits);
    }
    if (now < s->scan_after_ns)
        return;
    uint64_t cpu = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    thread_scan(s);
    s->scan_after_ns = now + SCAN_REST * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
}
