/* kernel_ticks.c - where in the kernel a thread's clock ticked, until the sample comes that it belongs to.
 *
 * A clock ticks on while the kernel works for a thread, and the thread gets one signal at the end: the
 * sample's weight belongs to its last ticks, in equal parts.  Ticks before one that came in the program
 * belong to other stacks (the signal was blocked), and so do more than the weight has (samples were lost).
 *
 * Context: the drain thread.
 */
#include "drain_parts.h"

#include <string.h>

#include "map.h"

#define TICKS_MAX (1u << 16)

bool kernel_ticks_add(struct kernel_ticks *t, uint64_t time_ns, uint32_t chain)
{
    if (t->n == TICKS_MAX) { /* the thread's signals are blocked; the last ones matter */
        t->n /= 2;
        memmove(t->of, t->of + t->n, t->n * sizeof *t->of);
    }
    if (!map_memory_grow(&t->of, &t->bytes, t->n + 1, sizeof *t->of))
        return false;
    size_t at = t->n++;
    for (; at && t->of[at - 1].time_ns > time_ns; at--)
        t->of[at] = t->of[at - 1];
    t->of[at] = (struct tick){.time_ns = time_ns, .chain = chain};
    return true;
}

void kernel_ticks_free(struct kernel_ticks *t)
{
    map_memory_free(t->of, t->bytes);
    *t = (struct kernel_ticks){0};
}

struct tick_parts kernel_ticks_of_sample(const struct kernel_ticks *t, uint64_t time_ns,
                                         uint32_t weight)
{
    struct tick_parts p = {.of = t->of, .time_ns = time_ns, .weight = weight};
    uint32_t most = weight ? weight : 1;
    for (; p.n < t->n && t->of[p.n].time_ns <= time_ns; p.n++)
        if (!t->of[p.n].chain || (p.n && !t->of[p.n - 1].chain))
            p.from = p.n;
    if (p.n - p.from > most)
        p.from = p.n - most;
    p.at = p.from;
    return p;
}

bool kernel_ticks_next(struct tick_parts *p, struct tick_part *part)
{
    while (p->at < p->n) {
        const struct tick *tick = &p->of[p->at++];
        bool last = p->at == p->n;
        if (!last && tick[1].chain == tick->chain)
            continue;
        uint32_t upto = (uint32_t)((uint64_t)p->weight * (p->at - p->from) / (p->n - p->from));
        *part = (struct tick_part){.time_ns = last ? p->time_ns : tick->time_ns,
                                   .weight = upto - p->given,
                                   .chain = tick->chain,
                                   .last = last};
        p->given = upto;
        return true;
    }
    return false;
}

void kernel_ticks_drop(struct kernel_ticks *t, const struct tick_parts *p)
{
    if (!p->n)
        return;
    t->n -= p->n;
    memmove(t->of, t->of + p->n, t->n * sizeof *t->of);
}
