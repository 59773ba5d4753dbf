/* shadow.h - which Python functions run on a thread, and what their coming and going counts.
 *
 * A function begins (PY_START, PY_RESUME, PY_THROW) and ends (PY_RETURN, PY_YIELD, PY_UNWIND); its
 * node is found from its caller's, through the native frames between where C called it.  Events may
 * be missing (functions that were running before, `throw` through a chain of generators, functions
 * that a filter leaves out): wherever a frame's caller is not the top of the shadow stack, the stack
 * is mended from the interpreter's own chain of frames.
 *
 * Context: callbacks of sys.monitoring and instrument_stop: with the GIL.  They never raise, and
 * allocate nothing that the GC knows.
 */
#ifndef PYH_SHADOW_H
#define PYH_SHADOW_H

#include <Python.h>

#include "call_tree.h"

/* The callbacks: vectorcall functions, (code, offset[, value]) -> None, or shadow_disable where a
 * filter leaves the function out.  PY_START; PY_RESUME; PY_THROW; PY_RETURN and PY_YIELD; PY_UNWIND. */
PyObject *shadow_on_start(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_resume(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_throw(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_yield(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_unwind(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

extern PyObject *shadow_disable; /* sys.monitoring.DISABLE */

/* Ends what still runs on the calling thread, now. */
void shadow_close_own(struct exact *x);

/* Ends what still runs on any thread, at the time `ticks`. */
void shadow_close_all(struct exact *x, uint64_t ticks);

#endif
