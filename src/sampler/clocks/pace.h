/* pace.h - how much shorter a perf event's period must be for one signal a period of its thread's CPU clock.
 *
 * An event starts to count some time after its thread is switched in, by its CPU clock: with 64 busy threads on two
 * processors 2.5 % of the signals do not come (docs/benchmarks.md).  Weights make up for that (weight.h), but there
 * are fewer samples than were asked for.
 *
 * Context: the collector thread.
 */
#ifndef PYH_PACE_H
#define PYH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* The thread's CPU clock and its signals until now.  True: from here on the event's period is another one. */
bool pace_learn(struct pace *p, uint64_t cpu_ns, uint64_t signals, uint64_t period_ns);

/* The clock stood still, or was set anew: what was until now teaches nothing. */
void pace_restart(struct pace *p);

/* The event's period where there is to be a signal in each `period_ns`. */
uint64_t pace_period(const struct pace *p, uint64_t period_ns);

#endif
