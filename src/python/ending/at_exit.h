/* at_exit.h - the exit function of a run: signals, and whether the program really ends.
 *
 * Handlers of the program that are Python code would run in ours, between any two of its instructions, and raise what they
 * like.  So this begins in C: they are held (late_signals.h) before an instruction of ours runs.
 *
 * Context: with the GIL.
 */
#ifndef PYH_AT_EXIT_H
#define PYH_AT_EXIT_H

#include <Python.h>

/* finish(ends): is the interpreter being taken down?  Or does the program run its exit functions itself, to exec
 * another one or to go on?  Then its signals are left alone.  `signal` is the module _signal, which the program may have
 * removed.  If the interpreter is to die of a KeyboardInterrupt, waits for the files: there will be no exit(). */
PyObject *at_exit_call(PyObject *signal, PyObject *finish);

/* Holds the signals that Python code handles, for good. */
void at_exit_hold_signals(PyObject *signal);

#endif
