/* sleep_detection.c - threads that wait for long are let alone.
 *
 * A signal ends the system call in which a thread waits: time.sleep then takes the GIL from others, only
 * to sleep on.  So by wall-clock time, a thread that was found waiting for a while, having run for
 * next to nothing meanwhile, stops its timer itself (the handler); while its CPU clock stands still, so
 * does the stack, and its last sample holds.
 *
 * Two things wake it, so to speak.  A timer on its own CPU clock, which the kernel looks at in each of its
 * ticks: one that finds the thread running is a sample of what it does.  And the collector, which looks at that
 * clock, too, and finds that the thread ran between two ticks: it may wait elsewhere now.  What it ran unseen
 * is given to the next sample that finds it running, as tick-bound timers do it.
 *
 * While it is asleep the collector writes, piece by piece, that the sample holds (sleep_detection_look):
 * `asleep_since_ns` is what has not been written, and who takes it out of there, the collector or the handler, gives
 * it.
 *
 * Context: the collector, or under the session's lock.
 */
#include "session.h"

#include "clock.h"
#include "drain.h"

#define PIECE_NS 50000000ull

/* The CPU time that a thread may take after a signal to go on with the same wait. */
#define TAIL_NS 100000

/* Its clock has stood still until now: the sample holds for whole periods since `since`. */
static void hold(struct session *s, struct thread *t, uint64_t since, uint64_t now)
{
    uint64_t period = atomic_load(&s->period_ns), periods = (now - since) / period;
    uint64_t until = since + periods * period;
    if (periods > UINT32_MAX || ring_peek(&t->ring)) /* the sample itself must be out */
        return;
    if (periods && atomic_compare_exchange_strong(&t->asleep_since_ns, &since, until))
        drain_repeat(s->drain, t, until, (uint32_t)periods);
}

/* Did the thread's CPU clock stand still since the last look? */
static bool stands_still(struct thread *t, uint64_t cpu)
{
    uint32_t sleeps = atomic_load(&t->n_sleeps);
    bool same = cpu == t->watched_cpu_ns && sleeps == t->watched_sleeps;
    t->watched_cpu_ns = cpu;
    t->watched_sleeps = sleeps;
    return same;
}

void sleep_detection_look(struct session *s, struct thread *t)
{
    uint64_t since = atomic_load_explicit(&t->asleep_since_ns, memory_order_acquire);
    uint64_t now = clock_now_ns(), cpu = since ? clock_read_ns(clock_of_thread(t->tid)) : 0;
    if (!cpu)
        return; /* it is awake, or has ended: sleep_detection_end comes */
    bool first = atomic_load(&t->n_sleeps) != t->watched_sleeps;
    if (stands_still(t, cpu)) {
        t->settled = true;
        if (now - since >= PIECE_NS)
            hold(s, t, since, now);
    } else {
        bool tail = (first || !t->settled) && cpu - t->asleep_cpu_ns < TAIL_NS;
        t->settled = false;
        if (!tail)
            engine_set_period(s, t); /* a signal comes: where is it? */
    }
}

void sleep_detection_end(struct session *s, struct thread *t)
{
    uint64_t since = atomic_load_explicit(&t->asleep_since_ns, memory_order_acquire);
    uint64_t now = clock_now_ns(), cpu = since ? clock_read_ns(clock_of_thread(t->tid)) : 0;
    if (cpu && stands_still(t, cpu))
        hold(s, t, since, now);
    since = atomic_exchange(&t->asleep_since_ns, 0);
    if (since && now > since)
        t->unseen_ns += now - since;
    t->settled = false;
}
