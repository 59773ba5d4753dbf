/* chosen.h - the threads that the clock on the wall is for, where not all are wanted.
 *
 * They are chosen by name, with patterns of the shell: the kernel's name, and the one that `threading` has,
 * which the exact half learns with a thread's first event.  A thread gets its names after it has begun, so one
 * that is not chosen is looked at again and again, ever more seldom, at last once a second.
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_CHOSEN_H
#define PYH_CHOSEN_H

#include <stdbool.h>

#include "thread.h"

struct session;

/* Shall the thread have a clock? */
bool chosen(struct session *s, struct thread *t);

/* Opens the clock of a thread that has got a name by which it is chosen. */
void chosen_look(struct session *s, struct thread *t);

/* Closes the clocks that were opened to measure what a sample costs. */
void chosen_settle(struct session *s);

#endif
