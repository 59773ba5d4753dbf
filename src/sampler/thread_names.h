/* thread_names.h - threads' names as the kernel has them, and which threads are sampled for their name.
 *
 * A thread gets its names after it has begun, so they are looked at again and again, ever more seldom.  By
 * wall-clock time only some threads may be wanted, chosen by patterns of the shell: by the kernel's name, or
 * by the one that `threading` has, which the exact half learns with a thread's first event.
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_THREAD_NAMES_H
#define PYH_THREAD_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "thread.h"

struct session;

struct sampler_options;

/* 0, or -EINVAL: more patterns than there is room for. */
int names_prepare(struct session *s, const struct sampler_options *options);

/* `threading` has this name for it: told to the spool, and it may be chosen by it. */
void names_tell(struct session *s, struct thread *t, const char *name, size_t length);

/* Looks at those threads for which it is time to.  A new name is told to the spool; a thread that is chosen by it
 * gets its clock. */
void names_look(struct session *s, uint64_t now);

/* Looks, whenever the last time was. */
void names_look_now(struct session *s, struct thread *t);

/* Shall the thread have a clock? */
bool names_choose(struct session *s, const struct thread *t);

/* What a sample costs has been measured, for which one thread had a clock: now those that are chosen have one. */
void names_settle(struct session *s);

#endif
