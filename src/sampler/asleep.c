#include "asleep.h"

#include "clock.h"
#include "drain.h"
#include "session.h"

#define LOOK_AGAIN_NS 1000000000ull

/* Its sample holds until now, but for what it ran meanwhile.  False: not yet, that sample waits for a name. */
static bool hold(struct session *s, struct thread *t, uint64_t since, uint64_t now, uint64_t cpu)
{
    uint64_t ran = cpu > t->asleep_cpu_ns ? cpu - t->asleep_cpu_ns : 0, elapsed = now - since;
    uint64_t periods = elapsed > ran ? (elapsed - ran) / atomic_load(&s->period_ns) : 0;
    drain_thread(s->drain, t, false);
    if (ring_peek(&t->ring))
        return false;
    if (periods)
        drain_repeat(s->drain, t, now, periods < UINT32_MAX ? (uint32_t)periods : UINT32_MAX);
    t->unseen_ns += ran < elapsed ? ran : elapsed;
    t->watched_cpu_ns = 0;
    t->settled = false;
    atomic_store(&t->asleep_since_ns, 0);
    return true;
}

void asleep_look(struct session *s, struct thread *t)
{
    uint64_t since = atomic_load_explicit(&t->asleep_since_ns, memory_order_acquire);
    if (!since)
        return;
    uint64_t now = clock_now_ns(), cpu = clock_read_ns(clock_of_thread(t->tid));
    if (!cpu)
        return; /* it has ended: asleep_end comes */
    /* It goes on a little when the signal has been handled; from where its clock stands still, any step
     * means that the stack may have changed. */
    bool same = cpu == t->watched_cpu_ns;
    t->watched_cpu_ns = cpu;
    if (same)
        t->settled = true;
    bool moved = !same && (t->settled || cpu - t->asleep_cpu_ns > ASLEEP_QUIET_NS);
    if ((moved || now - since > LOOK_AGAIN_NS) && hold(s, t, since, now, cpu))
        engine_set_period(s, t);
}

void asleep_end(struct session *s, struct thread *t)
{
    uint64_t since = atomic_load_explicit(&t->asleep_since_ns, memory_order_acquire);
    uint64_t cpu = since ? clock_read_ns(clock_of_thread(t->tid)) : 0;
    if (since)
        hold(s, t, since, clock_now_ns(), cpu);
}
