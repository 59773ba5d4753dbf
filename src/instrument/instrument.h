/* instrument.h - the exact half: every begin and end of a Python function, by sys.monitoring.
 *
 * Context: Python threads, with the GIL.
 */
#ifndef PYH_INSTRUMENT_H
#define PYH_INSTRUMENT_H

#include "c_calls.h"
#include "exact.h"

/* Claims a tool id (4, else 3, else 2) and switches the events on, for the calling interpreter.
 * `c_calls`: calls of C functions are counted, and told it by name; NULL: they are not.
 * Returns the id, or -1 with a Python exception set: RuntimeError if no id is free. */
int instrument_start(struct exact *x, c_calls_announce *c_calls);

/* Switches them off, ends what still runs, gives the id back.  Leaves no exception set. */
void instrument_stop(void);

/* No events from now on, or again: functions that run then end, and begin anew as if profiling began.
 * resume: 0 or -1 with an exception set. */
void instrument_pause(void);
int instrument_resume(void);

/* In a forked child, at once: nothing is counted.  Not with Python. */
void instrument_after_fork_child(void);

/* Switches off what a forked child inherited, when Python can be used again. */
void instrument_forget(void);

#endif
