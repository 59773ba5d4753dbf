/* calibrate.h - what counting a call costs on this machine.
 *
 * Context: with the GIL, while a session starts: its callbacks are registered, its events are off.
 */
#ifndef PYH_CALIBRATE_H
#define PYH_CALIBRATE_H

#include <Python.h>

#include "instrument.h"

/* Measures it in about a millisecond, on functions and a tree of its own, for a session like `x`.
 * `events` are PY_START and PY_RETURN as sys.monitoring numbers them.  0, also where it cannot
 * be measured; -1 with an exception set: there is no memory, or the program's handler of a signal
 * raised it meanwhile. */
int calibrate_calls(const struct exact *x, PyObject *monitoring, int tool_id, long events,
                    struct call_cost *cost);

#endif
