/* weight.h - how many sampling periods a sample stands for, by the clock that the profile is measured in.
 *
 * Context: any; async-signal-safe.
 */
#ifndef PYH_WEIGHT_H
#define PYH_WEIGHT_H

#include <stdint.h>

/* The whole periods, 0 or more, in `spent_ns`, the clock's time since the last call, and `*carry_ns`,
 * the time not given yet (below 0: given ahead), which it updates.
 *
 * A sample that comes a little early is given a period ahead; one that comes when a whole period was
 * given ahead already stands for none.  So all weights together stay within a period of the clock,
 * even if signals come faster than it ticks: the kernel's timers count the time that a hypervisor
 * takes from a virtual machine, a thread's CPU clock does not (CONFIG_PARAVIRT_TIME_ACCOUNTING). */
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
