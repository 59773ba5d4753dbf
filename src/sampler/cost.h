/* cost.h - what a sample costs on this machine, measured before the program starts.
 *
 * Context: in sampler_start, with the collector running.
 */
#ifndef PYH_COST_H
#define PYH_COST_H

#include <stdint.h>

#include "session.h"

/* While it is measured: rates below this one cost less than would have to be limited. */
#define COST_PERIOD_NS 1000000ull

/* Takes samples that are not kept, which s->calibrating and COST_PERIOD_NS are set for, some ms of them; then
 * sets the rate that was asked for, or the one that costs a fifth of a core.  Sets info->cost_ns (0: no signal
 * came).  The session is paused then. */
void cost_limit_rate(struct session *s, uint64_t wanted_ns, struct sampler_info *info);

#endif
