/* thread_scan.c - threads that came or went: the new ones get a record and a clock, what the others left is written.
 *
 * Context: the collector, or under session_lock.
 */
#include "session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "drain.h"

#define SCAN_REST 10
#define COVER_NS 20000000ull

/* A thread that has ended, once all that it left is in the spool: its samples may wait for the names
 * of code objects that came another way. */
static void retire(struct session *s, struct thread *t)
{
    if (t->seen || ring_peek(&t->ring) || thread_lives(t->tid))
        return;
    sleep_detection_end(s, t);
    drain_settle(s->drain, t);
    collector_snapshot(s, t);
    s->ended_ns += collector_given_ns(s, t);
    engine_retire(s, t);
    drain_remove_thread(s->drain, t);
    registry_remove(&s->registry, t);
}

static bool is_in(const char *text, const char *set, int signal)
{
    const char *mask = strstr(text, set);
    return mask && strtoull(mask + strlen(set), NULL, 16) >> (signal - 1) & 1;
}

/* Does it block our signal, of which one waits?  (pthread_create blocks all for a moment.)  By the kernel's word; false: that is
 * not to be had. */
static bool blocks_signal(struct session *s, const struct thread *t)
{
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", t->listed);
    int fd = t->listed ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    int signal = session_clock(s)->signal;
    return is_in(text, "\nSigPnd:", signal) && is_in(text, "\nSigBlk:", signal);
}

/* Nothing else records what the thread ran until `cpu_ns`, by its CPU clock. */
static void write_blocked(struct session *s, struct thread *t, uint64_t cpu_ns)
{
    uint64_t period = atomic_load(&s->period_ns);
    uint64_t weight = cpu_ns > t->looked_cpu_ns ? (cpu_ns - t->looked_cpu_ns) / period : 0;
    if (!weight)
        return;
    atomic_fetch_add(&t->blocked_ns, weight * period);
    t->blocked_weight += weight;
    t->looked_cpu_ns += weight * period;
    drain_blocked(s->drain, t, clock_now_ns(), (uint32_t)weight);
}

void thread_look_blocked(struct session *s, struct thread *t)
{
    uint64_t signals = collector_signals(s, t), cpu = t->last_cpu_ns;
    uint64_t period = atomic_load(&s->period_ns);
    if (!t->seen || t->ticks_only || s->clock == CLOCK_WALL || !session_clock(s)->signal)
        return;
    if (signals != t->looked_signals || cpu < t->looked_cpu_ns) {
        t->looked_signals = signals;
        t->looked_cpu_ns = cpu;
        t->is_blocked = false;
        return;
    }
    uint64_t ran = cpu - t->looked_cpu_ns;
    if (!t->is_blocked && ran < COVER_NS + 8 * period)
        return;
    t->is_blocked = blocks_signal(s, t);
    if (t->is_blocked)
        write_blocked(s, t, cpu);
}

void thread_end_ticks(struct session *s, struct thread *t)
{
    uint64_t cpu = t->ticks_only ? clock_read_ns(clock_of_thread(t->tid)) : 0;
    if (!cpu)
        return;
    newborn_drop(&s->newborns, t->tid);
    share_among_ticks(t, cpu);
    t->base_cpu_ns = t->cpu_ns = t->last_cpu_ns = t->looked_cpu_ns = cpu;
    t->ticks_only = false;
    engine_open(s, t);
}

void thread_cover(struct session *s, struct thread *t)
{
    uint64_t signals = collector_signals(s, t);
    uint64_t cpu = t->last_cpu_ns;
    if (t->has_event || t->has_timer || !t->seen)
        return;
    if (t->ticks_only) {
        if (cpu >= NEWBORN_TICKS * s->tick_ns)
            thread_end_ticks(s, t);
        return;
    }
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

/* What came last of it was a tick: no clock stands for that any more. */
static void end(struct session *s, struct thread *t)
{
    if (t->seen || t->has_ended || thread_lives(t->tid))
        return;
    t->has_ended = true;
    if (t->is_blocked)
        write_blocked(s, t, engine_cpu_ns(s, t));
    if (t->held)
        ring_commit(&t->ring, t->held, t->held_bytes, RING_SAMPLE);
    t->held = NULL;
}

static void see_if_alive(struct session *s, struct thread *t)
{
    (void)s;
    t->seen |= thread_lives(t->tid);
}

/* The threads that are known, the first one and the one that began; others register themselves, or stay unknown. */
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
    newborns_sweep(&s->newborns);
    bool complete = task_list_read(&s->tasks, see, s);
    admit_claimed(s);
    if (!complete)
        do_without_list(s);
    if (!any_ended(s))
        return;
    s->look_again = true; /* it may have to wait */
    s->changed_ns = clock_now_ns();
    session_each(s, end);
    collector_drain(s);
    session_each(s, retire);
}

/* Where there are thousands of threads it takes milliseconds: it is not to take more than one in ten. */
void thread_scan_in_turn(struct session *s, uint64_t now)
{
    if (session_clock(s)->signal) {
        admit_claimed(s);
        registry_stock(&s->registry, &s->limits);
    }
    if (now < s->scan_after_ns)
        return;
    uint64_t cpu = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    thread_scan(s);
    s->scan_after_ns = now + SCAN_REST * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
}
