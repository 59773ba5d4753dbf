/* program.h - runs the profiled program as the interpreter's own main does.
 *
 * What ends a program (an exception, SystemExit, a hook that fails) is handled by the interpreter
 * here, below all Python frames of ours, so no traceback has them.  SystemExit does not come back.
 *
 * Context: the main thread, with the GIL.
 */
#ifndef PYH_PROGRAM_H
#define PYH_PROGRAM_H

#include <Python.h>

/* run_file(path: bytes | None) -> bool: a script or `.pyc` in `__main__`; None: standard input.
 * False: it ended by an exception, which has been reported (sys.last_exc). */
PyObject *program_run_file(PyObject *self, PyObject *path);

/* run_command(code: str) -> bool: the same for `-c`. */
PyObject *program_run_command(PyObject *self, PyObject *command);

/* run_call(function, *arguments) -> bool: the same for a call. */
PyObject *program_run_call(PyObject *self, PyObject *const *args, Py_ssize_t n);

#endif
