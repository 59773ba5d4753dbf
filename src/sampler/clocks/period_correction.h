/* period_correction.h - how much shorter a perf event's period must be for one signal a period of its thread's CPU
 * clock.
 *
 * An event starts to count some time after its thread is switched in, by its CPU clock: with 64 busy threads on two
 * processors 2.5 % of the signals do not come (docs/benchmarks.md).  Weights make up for that (weight.h), but there
 * are fewer samples than were asked for.
 *
 * Context: the collector thread.
 */
#ifndef PYH_PERIOD_CORRECTION_H
#define PYH_PERIOD_CORRECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* Learns from the thread's CPU clock and its signals until now.  Returns whether the event's period changes. */
bool period_correction_learn(struct period_correction *p, uint64_t cpu_ns, uint64_t signals,
                             uint64_t period_ns);

/* Forgets what was measured until now: the clock stood still, or was set anew. */
void period_correction_restart(struct period_correction *p);

/* Returns the event's period that makes for one signal in each `period_ns`. */
uint64_t period_correction_apply(const struct period_correction *p, uint64_t period_ns);

#endif
