/* monitoring.h - what a tool asks of sys.monitoring: a free id, what an event is called there.
 *
 * Context: with the GIL.  Functions that return -1 have set an exception.
 */
#ifndef PYH_MONITORING_H
#define PYH_MONITORING_H

#include <Python.h>
#include <stdbool.h>

/* sys.monitoring.name(...), its result dropped; `format` is Py_BuildValue's, of a tuple.  0 or -1. */
int monitoring_call(PyObject *monitoring, const char *name, const char *format, ...);

/* sys.monitoring.events.name, or -1. */
long monitoring_event(PyObject *monitoring, const char *name);

/* Our tool's id, which was free; or -1. */
int monitoring_claim(PyObject *monitoring);

/* Remembers whether there is another tool, sys.settrace's and sys.setprofile's functions included; of those that begin
 * later the audit hook tells, with each event of its.  Returns whether one gets the events of all functions. */
bool monitoring_look_for_others(PyObject *monitoring, int own);
void monitoring_audit(const char *event, PyObject *args);

/* Was there another tool since monitoring_look_for_others?  Then the interpreter's instrumentation is not ours alone. */
bool monitoring_has_others(void);

#endif
