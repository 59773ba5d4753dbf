/* asleep.h - threads that wait for long are let alone.
 *
 * A signal ends the system call in which a thread waits: time.sleep then takes the GIL from others, only
 * to sleep on.  So by wall-clock time, a thread that was found waiting for a while, having run for
 * next to nothing meanwhile, stops its timer itself (the handler); while its CPU clock stands still, so
 * does the stack, and its last sample holds.
 *
 * Two things wake it, so to speak.  A timer on its own CPU clock, which the kernel looks at in each of its
 * ticks: one that finds the thread running is a sample of what it does.  And the collector, which looks at that
 * clock, too, and finds that the thread ran between two ticks: it may wait elsewhere now.  What it ran unseen
 * is given to the next sample that finds it running, as tick-bound timers do it.
 *
 * While it is asleep the collector writes, piece by piece, that the sample holds (asleep_look): `asleep_since_ns`
 * is what has not been written, and who takes it out of there, the collector or the handler, gives it.
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_ASLEEP_H
#define PYH_ASLEEP_H

#include "thread.h"

struct session;

#define ASLEEP_SAMPLES 4
#define ASLEEP_AFTER_NS 20000000ull

/* Looks at the thread. */
void asleep_look(struct session *s, struct thread *t);

/* Its sample holds until now: sampling pauses, or ends; or the thread is gone.  What is not known to have been
 * waiting counts as missed. */
void asleep_end(struct session *s, struct thread *t);

#endif
