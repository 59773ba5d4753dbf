#include "period_correction.h"

#define ONE 1024
#define SHORTER_MAX (ONE / 16)
#define DUE_LEAST 128 /* periods: among so many, signals that are missing are known to 1 % */
#define OFF_LEAST (ONE / 100)
/* More has other reasons: the signal was blocked, or overflows coalesced. */
#define OFF_MOST (ONE / 10)

/* Parts of ONE by which the signals that came were too few (below 0: too many); 0: nothing to learn from. */
static int32_t too_few(uint64_t due, uint64_t came)
{
    int64_t off = ((int64_t)due - (int64_t)came) * ONE / (int64_t)due;
    int64_t size = off < 0 ? -off : off;
    return size < OFF_LEAST || size > OFF_MOST ? 0 : (int32_t)off;
}

bool period_correction_learn(struct period_correction *p, uint64_t cpu_ns, uint64_t signals,
                             uint64_t period_ns)
{
    int32_t shorter = p->shorter;
    if (p->cpu_ns) {
        uint64_t due = (cpu_ns - p->cpu_ns) / period_ns;
        if (due < DUE_LEAST)
            return false;
        shorter += too_few(due, signals - p->signals);
    }
    if (shorter < 0)
        shorter = 0;
    if (shorter > SHORTER_MAX)
        shorter = SHORTER_MAX;
    bool changes = shorter != p->shorter;
    *p = (struct period_correction){cpu_ns, signals, shorter};
    return changes;
}

void period_correction_restart(struct period_correction *p)
{
    p->cpu_ns = 0;
}

uint64_t period_correction_apply(const struct period_correction *p, uint64_t period_ns)
{
    return period_ns - period_ns * (uint64_t)p->shorter / ONE;
}
