/* emitted.h - the callbacks of sys.monitoring while a sink (sink.h) wants their events: they tell it, and count as the
 * others do (shadow.h, c_calls.h, lines.h).
 *
 * Context: with the GIL.  They never raise.
 */
#ifndef PYH_EMITTED_H
#define PYH_EMITTED_H

#include <Python.h>

PyObject *emitted_on_start(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_resume(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_throw(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_yield(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_unwind(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

/* Tells sinks what the program has to say. */
void emitted_message(const char *text);

#endif
