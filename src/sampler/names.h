/* names.h - threads' names as the kernel has them, and which threads are sampled for their name.
 *
 * A thread gets its names after it has begun, so they are looked at again and again, ever more seldom.  By the
 * clock on the wall only some threads may be wanted, chosen by patterns of the shell: by the kernel's name, or
 * by the one that `threading` has, which the exact half learns with a thread's first event.
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_NAMES_H
#define PYH_NAMES_H

#include <stdbool.h>

#include "thread.h"

struct session;

/* Looks, if it is time to.  A new name is told to the spool; a thread that is chosen by it gets its clock. */
void names_look(struct session *s, struct thread *t);

/* Looks, whenever the last time was. */
void names_look_now(struct session *s, struct thread *t);

/* Shall the thread have a clock? */
bool names_choose(struct session *s, const struct thread *t);

/* Closes the clocks that were opened to measure what a sample costs. */
void names_settle(struct session *s);

#endif
