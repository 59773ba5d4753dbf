/* cost.c - what a sample costs on this machine, measured before the program starts.
 *
 * Context: in sampler_start, with the collector running.
 */
#include "session.h"

#include <stdlib.h>

#include "clock.h"

#define COST_SIGNALS 8 /* what a sample costs, roughly, is known after so many */
#define COST_LEAST 2   /* the first one finds everything cold, and takes ten times as long */
#define COST_MAX_NS 12000000ull
#define COST_SPINS 400 /* less than a microsecond */
#define LIMIT_SIGNALS 24
#define LIMIT_MAX_NS 500000000ull
#define COST_SHARE 5 /* of a core: one fifth, 20 % */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t own_cpu_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* What a sample costs: the CPU time that is missing from a busy loop where a signal came, the lower quartile:
 * the first ones find everything cold. */
static uint64_t measure_cost(struct session *s, uint64_t n_signals, uint64_t max_ns)
{
    uint64_t gaps[LIMIT_SIGNALS] = {0}, n = 0, before = atomic_load(&s->calibration_signals);
    uint64_t now = own_cpu_ns(), end = now + max_ns;
    while (now < end && n < n_signals) {
        uint64_t then = now;
        /* To read that clock takes a system call, and there are events that do not see the kernel. */
        for (volatile int spins = 0; spins < COST_SPINS; spins++)
            ;
        now = own_cpu_ns();
        uint64_t signals = atomic_load(&s->calibration_signals);
        if (signals == before)
            continue;
        before = signals;
        /* It came before this reading of the clock, or just after. */
        uint64_t after = own_cpu_ns();
        gaps[n++] = now - then > after - now ? now - then : after - now;
        now = after;
    }
    qsort(gaps, n, sizeof *gaps, by_size);
    return n < COST_LEAST ? 0 : gaps[n / 4];
}

/* From here on samples count, once it is resumed. */
static void make_ready(void *session)
{
    struct session *s = session;
    uint32_t at = 0;
    pthread_mutex_lock(&session_lock);
    session_pause(s);
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        engine_set_period(s, t);
        t->paused_cpu_ns = t->base_cpu_ns;
    }
    atomic_store(&s->calibrating, 0);
    names_settle(s);
    s->start_cpu_ns = s->paused_cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    s->start_ns = s->counted_from_ns = clock_now_ns();
    pthread_mutex_unlock(&session_lock);
}

void cost_is_known(struct session *s)
{
    session_block(make_ready, s);
}

void cost_limit_rate(struct session *s, uint64_t wanted_ns, struct sampler_info *info)
{
    bool limits = wanted_ns < COST_PERIOD_NS;
    info->cost_ns =
        measure_cost(s, limits ? LIMIT_SIGNALS : COST_SIGNALS, limits ? LIMIT_MAX_NS : COST_MAX_NS);
    uint64_t least = limits ? info->cost_ns * COST_SHARE : 0;
    if (limits && !least)
        least = COST_PERIOD_NS; /* no signal came: this thread blocks them */
    atomic_store(&s->period_ns, least > wanted_ns ? least : wanted_ns);
    session_block(make_ready, s);
}
