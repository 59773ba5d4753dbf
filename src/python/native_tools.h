/* native_tools.h - tools of other systems' instrumentation (capi/), and what instrumented code said at a session's end.
 *
 * Context: with the GIL.
 */
#ifndef PYH_NATIVE_TOOLS_H
#define PYH_NATIVE_TOOLS_H

#include <Python.h>

#include "instrument.h"
#include "native_region.h"

/* open_tool(path): loads the tool for all of the process to find, and for good.  Raises OSError. */
PyObject *native_open_tool(PyObject *self, PyObject *path);

/* A new dict of meta keys: unplaced_regions, unmatched_regions, counting_more_ns (instrument_more_ns; `x` NULL: 0),
 * other_tools (monitoring.h), counters, metadata.  NULL: an exception is set. */
PyObject *native_said(uint32_t generation, struct native_region_losses losses,
                      const struct exact *x);

#endif
