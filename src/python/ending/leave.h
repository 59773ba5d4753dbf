/* leave.h - the program ends without exit(): by os._exit(), or by exec, and its profile is made all the same.
 *
 * os._exit() waits for it, with the GIL, so that no thread goes on in Python.  Before an exec the profile ends, if
 * that is sure to succeed (as far as one can know): what fails, as a search through $PATH does, is no end.
 *
 * Context: with the GIL.
 */
#ifndef PYH_LEAVE_H
#define PYH_LEAVE_H

#include <Python.h>
#include <stdbool.h>

/* callback(execs: bool), before this process ends so, once; what it raises is forgotten.  Events and samples are
 * off by then. */
void leave_watch(PyObject *callback);
/* No more; also in a forked child, without Python. */
void leave_unwatch(void);
/* Before os.exec*(), with the audit event's path, arguments, environment: true if the callback has been called. */
bool leave_by_exec(PyObject *args);

#endif
