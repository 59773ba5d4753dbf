/* weight.h - how many sampling periods a sample stands for, by the clock that the profile is measured in.
 *
 * Context: any; async-signal-safe.
 */
#ifndef PYH_WEIGHT_H
#define PYH_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#define WEIGHT_UNREAD_MAX 15

/* Returns whether a sample can stand for one period without a look at the clock.  It came `since_ns` after the one
 * before by wall-clock time, which the thread's CPU clock never outruns, so it stands for one at most, and the next
 * look settles what that was off by.  `n_unread` counts samples since the last look, each of which has taken its period
 * from `carry_ns`.  Where that look found a period given ahead, signals come too fast, and each is looked at. */
static inline bool weight_is_one(uint64_t since_ns, uint64_t period_ns, int64_t carry_ns,
                                 uint64_t n_unread)
{
    int64_t period = (int64_t)period_ns, found = carry_ns + (int64_t)n_unread * period;
    return 2 * since_ns < 3 * period_ns && n_unread < WEIGHT_UNREAD_MAX && found > -period;
}

/* Returns the whole periods, 0 or more, in `spent_ns`, the clock's time since the last call, and `*carry_ns`,
 * the time not given yet (below 0: given ahead), which it updates.
 *
 * A sample that comes a little early is given a period ahead; one that comes when a whole period was
 * given ahead already stands for none.  So all weights together are never more than 16 periods ahead of
 * the clock, one if each sample is looked at, even if signals come faster than it ticks: the kernel's
 * timers count the time that a hypervisor takes from a virtual machine, a thread's CPU clock does not
 * (CONFIG_PARAVIRT_TIME_ACCOUNTING). */
static inline uint32_t weight_take(int64_t *carry_ns, uint64_t spent_ns, uint64_t period_ns)
{
    int64_t period = (int64_t)period_ns, owed = (int64_t)spent_ns + *carry_ns;
    int64_t weight = (owed + period / 2) / period;
    if (weight < 1)
        weight = owed >= 0;
    *carry_ns = owed - weight * period;
    return (uint32_t)weight;
}

#endif
