/* c_calls.h - calls from Python into C functions, by CALL, C_RETURN and C_RAISE.
 *
 * A C function is the code that the interpreter calls for a callable: ml_meth of a builtin function or
 * method, the slot of a slot wrapper; of a class tp_vectorcall, or else tp_init unless that is object's,
 * or else tp_new; of any other object its vectorcall function or tp_call.  A Python function is none,
 * nor is what leads to one at once: a class whose `__init__` or `__new__`, an object whose `__call__` is
 * written in Python.
 *
 * A Python frame waits for one C function at a time.  What CPython sends for a bound-method object of a C
 * function that is called with `*args` has gaps: 3.12.1 nothing at all, so that it is not counted; 3.13
 * no end, so that it is timed until the frame does something else that has an event.
 *
 * Context: callbacks of sys.monitoring, with the GIL; c_calls_start ordinary Python context.
 */
#ifndef PYH_C_CALLS_H
#define PYH_C_CALLS_H

#include <Python.h>
#include <stdint.h>

/* Tells a name by which Python calls the C function at `address`, once for each. */
typedef void c_calls_announce(uint64_t address, const char *name, uint32_t length);

/* Once per session.  0 or -1 with an exception set. */
int c_calls_start(c_calls_announce *announce);
void c_calls_stop(void);

/* The callbacks: vectorcall functions, (code, offset, callable, first argument) -> None, or DISABLE. */
PyObject *c_calls_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *c_calls_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *c_calls_on_raise(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

#endif
