/* instrument.h - the exact half: every begin and end of a Python function, by sys.monitoring.
 *
 * Context: Python threads, with the GIL.
 */
#ifndef PYH_INSTRUMENT_H
#define PYH_INSTRUMENT_H

#include "c_calls.h"
#include "call_tree.h"

/* Estimates, in nanoseconds; 0: not known.  calibrate.c has the model. */
struct call_cost {
    double call_ns;   /* that counting adds to a call, or to a turn of a generator, in all */
    double inside_ns; /* the part of it that the callee's own time has; the rest is its caller's */
    uint64_t usual_ticks; /* struct callback_times' */
};

/* Claims a tool id (4, else 3, else 2), measures what counting costs, and switches the events on, for
 * the calling interpreter; with `lines`, LINE events, too, of the functions that the filter selects.
 * `c_calls`: calls of C functions are counted, and told it by name; NULL: they are not.
 * Returns the id, or -1 with a Python exception set: RuntimeError if no id is free. */
int instrument_start(struct exact *x, bool lines, c_calls_announce *c_calls,
                     struct call_cost *cost);

/* Where nothing is counted: one event is on from now on, where the method begins through which objects are called, which are met
 * there (instances.h).  Until instrument_stop.  0, or -1 with an exception set: RuntimeError if no id is free. */
int instrument_meet(void);

/* Called by each thread with the first event that is counted, or (instrument_meet_thread) where it begins.  NULL: not. */
extern void (*instrument_thread_begins)(void);

/* Where nothing is counted: `function` is to be the first one of a thread.  If it is `threading`'s, one event is on from now on,
 * where that begins.  Until instrument_stop.  No exceptions. */
void instrument_meet_thread(PyObject *function);

/* The code object at `code` has LINE events from now on; is about to be freed, or just made.  Not
 * with an exception set; they leave none. */
void instrument_add_lines(uint64_t code);
void instrument_forget_code(uint64_t code);

/* Switches them off, ends what still runs, gives the id back.  Leaves no exception set. */
void instrument_stop(void);

/* What begins and ends took beyond the cost of a call (struct call_cost) each, in nanoseconds, so far: those from C code, of new
 * paths, of new threads. */
double instrument_more_ns(const struct exact *x);

/* No events from now on, or again: functions that run then end, and begin anew as if profiling began.
 * resume: 0 or -1 with an exception set. */
void instrument_pause(void);
int instrument_resume(void);

/* No events count from now on, or again, as with these two, at next to no cost: they may still come, and are
 * switched off where they go on to.  Active when it is already: only what has run since is nobody's time.  No
 * exceptions. */
void instrument_idle(void);
void instrument_active(void);

/* An event came that does not count.  Whatever the exception set. */
void instrument_idle_event(void);

/* What runs now on the calling thread leads to the program, and is none of it (launcher.h): its turns end. */
void instrument_program_begins(void);

/* In a forked child, at once: nothing is counted.  Not with Python. */
void instrument_after_fork_child(void);

/* Switches off what a forked child inherited, when Python can be used again, or the one event of instrument_meet. */
void instrument_forget(void);

#endif
