/* asleep.h - threads that wait for long are let alone.
 *
 * A signal ends the system call in which a thread waits: time.sleep then takes the GIL from others, only
 * to sleep on.  So by the clock on the wall, a thread that was found waiting several times, having run for
 * next to nothing between, stops its timer itself (the handler).  The collector looks at its CPU clock: while
 * that stands still, so does the stack, and the last sample holds for all of that time.  When the clock
 * has moved, or after a second, the timer starts again.  What the thread ran until then, up to a tick of the
 * collector's, is nobody's sample.
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_ASLEEP_H
#define PYH_ASLEEP_H

#include <stdint.h>

#include "thread.h"

struct session;

#define ASLEEP_SAMPLES 4
#define ASLEEP_QUIET_NS 300000 /* of CPU time: what a signal costs the thread, and a little more */

/* Looks at the thread; wakes it, so to speak, when it is time.  drain_begin was called. */
void asleep_look(struct session *s, struct thread *t);

/* The same at once, but with its timer as it is: sampling pauses, or the thread is gone. */
void asleep_end(struct session *s, struct thread *t);

#endif
