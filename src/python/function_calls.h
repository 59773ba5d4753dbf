/* function_calls.h - function_figures.h for Python.
 *
 * Context: Python threads, with the GIL.
 */
#ifndef PYH_FUNCTION_CALLS_H
#define PYH_FUNCTION_CALLS_H

#include <Python.h>

#include "function_figures.h"

/* [(caller's code object or None, calls, nanoseconds)] of the function of a code object.  `knows_deaths`: a code object
 * that is in the table is alive. */
PyObject *function_calls(struct exact *x, PyObject *code, bool knows_deaths);

#endif
