#include "newborn.h"

#include <signal.h>
#include <sys/syscall.h>

#include "session.h"

#define PROBES 16                 /* places that a thread may have */
#define YOUNG_MAX_NS 200000000ull /* who ran longer without a sample blocks signals */
#define AT_EACH_TICK 100000 /* nanoseconds: far less than a tick, so that each one sends a signal */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static struct newborn *place(struct newborns *n, pid_t tid, int i)
{
    return &n->of[((unsigned)tid + (unsigned)i) % NEWBORN_MAX];
}

static struct newborn *find(struct newborns *n, pid_t tid, pid_t with)
{
    for (int i = 0; n->of && i < PROBES; i++)
        if (atomic_load_explicit(&place(n, tid, i)->tid, memory_order_acquire) == with)
            return place(n, tid, i);
    return NULL;
}

bool newborn_has(struct newborns *n, pid_t tid)
{
    return atomic_load_explicit(&n->n, memory_order_relaxed) && find(n, tid, tid);
}

int newborn_take(struct newborns *n, pid_t tid)
{
    struct newborn *b = newborn_has(n, tid) ? find(n, tid, tid) : NULL;
    if (!b || !atomic_compare_exchange_strong(&b->tid, &(pid_t){tid}, -1))
        return -1;
    int timer = b->timer;
    atomic_store(&b->tid, 0);
    atomic_fetch_sub(&n->n, 1);
    return timer;
}

void newborn_drop(struct newborns *n, pid_t tid)
{
    int timer = newborn_take(n, tid);
    if (timer >= 0)
        arch_syscall6(SYS_timer_delete, timer, 0, 0, 0, 0, 0);
}

static void arm(const struct session *s, int timer, uint64_t seed)
{
    uint64_t period = atomic_load_explicit(&s->period_ns, memory_order_relaxed);
    if (s->clock == CLOCK_WALL)
        session_set_timer(timer, session_random(seed, period), period);
    else
        session_set_timer(timer, 1, AT_EACH_TICK);
}

bool newborn_begin(struct session *s, pid_t tid, bool has_end)
{
    struct newborns *n = &s->newborns;
    const struct clock_ops *clock = session_clock(s);
    bool wall = s->clock == CLOCK_WALL;
    if (!n->of || !clock->signal || s->signal_taken || atomic_load(&s->state) != SESSION_RUNNING)
        return false;
    struct newborn *b = find(n, tid, 0);
    if (!b || !atomic_compare_exchange_strong(&b->tid, &(pid_t){0}, -1))
        return false;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = clock->signal};
    event.sigev_value.sival_ptr = wall ? (void *)s : (void *)(NEWBORN_DATA + !has_end);
    event.sigev_notify_thread_id = tid;
    int timer = -1;
    long error = arch_syscall6(SYS_timer_create, wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID,
                               (long)&event, (long)&timer, 0, 0, 0);
    if (error) {
        atomic_store(&b->tid, 0);
        return false;
    }
    b->timer = timer;
    b->has_end = has_end;
    b->begun_cpu_ns = has_end && !wall ? clock_read_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    atomic_fetch_add(&n->n, 1);
    atomic_store(&b->tid, tid);
    arm(s, timer, (uint64_t)tid);
    return true;
}

uint64_t newborn_share(struct session *s, pid_t tid, uint64_t from_ns, uint64_t cpu_ns)
{
    struct newborns *n = &s->newborns;
    struct newborn *b = newborn_has(n, tid) ? find(n, tid, tid) : NULL;
    if (!b || !b->has_end || s->clock != CLOCK_CPU)
        return 0;
    uint64_t from = b->begun_cpu_ns > from_ns ? b->begun_cpu_ns : from_ns;
    uint64_t ran = cpu_ns > from && cpu_ns - from < YOUNG_MAX_NS ? cpu_ns - from : 0;
    atomic_fetch_add(&n->shared_ns, ran);
    return ran;
}

void newborn_end(struct session *s, pid_t tid)
{
    struct thread *t = registry_find(&s->registry, tid);
    uint64_t cpu = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t ran = newborn_share(s, tid, t && t->n_own ? t->cpu_ns : 0, cpu);
    newborn_drop(&s->newborns, tid);
    if (!t || s->clock != CLOCK_CPU)
        return;
    counter_add(&t->young_ns, ran);
    counter_set(&t->counters.cpu_ns, cpu);
    counter_set(&t->counters.n_unread, 0);
}

static bool has_ended(pid_t tid)
{
    long self = arch_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return arch_syscall6(SYS_tgkill, self, tid, 0, 0, 0, 0) != 0;
}

void newborns_sweep(struct newborns *n)
{
    for (int i = 0; i < NEWBORN_MAX && atomic_load(&n->n) > 0; i++) {
        pid_t tid = atomic_load_explicit(&n->of[i].tid, memory_order_relaxed);
        if (tid > 0 && has_ended(tid))
            newborn_drop(n, tid);
    }
}

void newborns_enable(struct session *s, bool enable)
{
    struct newborns *n = &s->newborns;
    for (int i = 0; i < NEWBORN_MAX && atomic_load(&n->n) > 0; i++) {
        struct newborn *b = &n->of[i];
        pid_t tid = atomic_load(&b->tid);
        if (tid <= 0 || !atomic_compare_exchange_strong(&b->tid, &tid, -1))
            continue;
        if (enable)
            arm(s, b->timer, (uint64_t)tid);
        else
            session_set_timer(b->timer, 0, 0);
        atomic_store(&b->tid, tid);
    }
}

void newborns_close(struct newborns *n)
{
    for (int i = 0; i < NEWBORN_MAX && atomic_load(&n->n) > 0; i++)
        if (atomic_load(&n->of[i].tid) > 0)
            newborn_drop(n, atomic_load(&n->of[i].tid));
}
