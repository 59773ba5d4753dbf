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

#include <stdbool.h>

/* mark_launcher(): all that runs now, and what it calls, is not the program's (launcher.h). */
PyObject *program_mark_launcher(PyObject *self, PyObject *unused);

/* run_file(path: bytes | None) -> bool: a script or `.pyc` in `__main__`; None: standard input.
 * False: it ended by an exception, which has been reported (sys.last_exc). */
PyObject *program_run_file(PyObject *self, PyObject *path);

/* run_command(code: str, begin) -> bool: the same for `-c`; `begin` is called when it is compiled, and its source known to
 * tracebacks: modules are imported for that. */
PyObject *program_run_command(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* run_call(beginner, function, *arguments) -> bool: the same for the call of a function that calls `beginner`, which
 * hands over to the program by exec(). */
PyObject *program_run_call(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* never_began() -> bool: one of these has ended by an error before any of the program's code ran: it was not found, or
 * could not be compiled. */
PyObject *program_never_began(PyObject *self, PyObject *unused);

/* call_apart(function, *args, **kwargs): a call of which the profile has nothing of what leads to it, as if the program
 * began there. */
PyObject *program_call_apart(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* exec() is called: is it by `beginner`, for the first time?  Then its frame is the launcher's last from now on. */
bool program_begins_now(void);

#endif
