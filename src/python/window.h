/* window.h - `with window(session):`: a profile that counts only while a decorated function runs.
 *
 * While any window of a session is open, in any thread, it counts all threads; while none is, it is idle
 * (instrument_idle, sampler_idle): nothing counts, and opening and closing costs well below a microsecond.
 * A window of a session that has ended, or that a fork has left to the parent, does nothing.
 *
 * Context: Python threads, with the GIL.
 */
#ifndef PYH_WINDOW_H
#define PYH_WINDOW_H

#include <Python.h>

/* How many windows are open. */
uint32_t window_n_open(void);

/* Adds the type `window`.  0, or -1 with an exception set. */
int window_add_type(PyObject *module);

#endif
