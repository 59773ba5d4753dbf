/* signals.h - the signals that the sampler takes, and what they did before.
 *
 * Context: by one thread at a time.
 */
#ifndef PYH_SIGNALS_H
#define PYH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* handler_on_signal handles `number` from now on. */
void signal_take(int number);

/* Whether it still does: the program may have installed another handler. */
bool signal_is_taken(int number);

/* Whether it may be taken: it does what it does by default, or would without us. */
bool signal_is_free(int number);

/* Pending ones are gone; else nothing changes.  Nothing, if it is not ours.  A thread that blocks the signal may
 * still get one: an event that was closed may have one under way. */
void signal_drop_pending(int number);

/* What it did before, and again nothing is pending. */
void signal_give_back(int number);

#endif
