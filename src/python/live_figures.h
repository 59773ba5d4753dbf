/* live_figures.h - function_figures.h for Python: what a function has come to so far.
 *
 * Context: Python threads, with the GIL.
 */
#ifndef PYH_LIVE_FIGURES_H
#define PYH_LIVE_FIGURES_H

#include <Python.h>

#include "function_figures.h"

/* [(caller's code object or None, calls, nanoseconds)] of the function of a code object.  `knows_deaths`: a code object
 * that is in the table is alive. */
PyObject *live_figures(struct exact *x, PyObject *code, bool knows_deaths);

#endif
