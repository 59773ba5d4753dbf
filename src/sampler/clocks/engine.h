/* engine.h - the clock that drives the samples here, and one of it for each thread.
 *
 * Context: the collector thread, and under the session's lock sampler_start, _pause, _resume, _stop.
 */
#ifndef PYH_ENGINE_H
#define PYH_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock_ops.h"
#include "sampler.h"

/* Which clock `options` get here: s->clock_ops, and what info says of it.  0, or -errno with info->engine_reason. */
int engine_probe(struct session *s, const struct sampler_options *options,
                 struct sampler_info *info);

/* As those of struct clock_ops. */
int engine_open(struct session *s, struct thread *t);
void engine_close(struct session *s, struct thread *t);
void engine_retire(struct session *s, struct thread *t);
void engine_set_period(struct session *s, struct thread *t);
void engine_enable_all(struct session *s, bool enable);

/* With what belongs to no thread that lives. */
void engine_close_all(struct session *s);

/* Its signal is wanted elsewhere, for the reason `why`: another clock goes on, once all is drained. */
void engine_give_way(struct session *s, const char *why);

/* The thread's CPU time by the kernel's count; after it ended, as far as it is known. */
uint64_t engine_cpu_ns(struct session *s, struct thread *t);

#endif
