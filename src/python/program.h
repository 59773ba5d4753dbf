/* program.h - runs the profiled program as the interpreter's own main does.
 *
 *     file = program_file(path)   or   code = compile_command(text)   or nothing to prepare
 *     next(filter(None, [file]))       begin_code(code)                  begin_call(beginner, function, ...)
 *     end_file(file, failed)           end_program(error, None)          end_program(error, its file)
 *
 * What begins it leaves its frame to the function of the interpreter that it calls (a tail call), and so does what reports
 * an error: no library but the interpreter's lies below the program.  Rust's standard library keeps the debug
 * information of four libraries; with a fifth on the stack each of its backtraces reads all of it anew.
 *
 * What ends a program (an exception, SystemExit, a hook that fails) is handled by the interpreter, and no traceback has
 * Python frames of ours.  SystemExit does not come back.
 *
 * Context: the main thread, with the GIL.
 */
#ifndef PYH_PROGRAM_H
#define PYH_PROGRAM_H

#include <Python.h>

#include <stdbool.h>

/* mark_launcher(): all that runs now, and what it calls, is not the program's (launcher.h). */
PyObject *program_mark_launcher(PyObject *self, PyObject *unused);

/* ProgramFile(path: bytes | None): a script or `.pyc`, opened; None: standard input.  Whoever asks for its truth value
 * runs it, in `__main__`, and gets what PyRun_AnyFileExFlags returns: 0, or -1, without an exception, where it ended by
 * one, which has been reported (sys.last_exc). */
int program_add_file_type(PyObject *module);

/* end_file(file, failed: bool): after that. */
PyObject *program_end_file(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* compile_command(code: str) -> code | None: the value of `-c`; its source is then known to tracebacks: modules are
 * imported for that.  None: it cannot be compiled, which has been reported. */
PyObject *program_compile_command(PyObject *self, PyObject *text);

/* begin_code(code): runs it in `__main__`.  Raises what it raises, in a frame of ours. */
PyObject *program_begin_code(PyObject *self, PyObject *code);

/* begin_call(beginner, function, *arguments): the same for the call of a function that calls `beginner`, which hands over
 * to the program by exec(). */
PyObject *program_begin_call(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* end_program(error | None, finder: str | None) -> what reports the error, without the frame of ours, when it is let go
 * of: that is the program's, too, and has its end.  `finder`: the file of what finds the program. */
PyObject *program_end(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* never_began() -> bool: one of these has ended by an error before any of the program's code ran: it was not found, or
 * could not be compiled. */
PyObject *program_never_began(PyObject *self, PyObject *unused);

/* call_apart(function, *args, **kwargs): a call of which the profile has nothing of what leads to it, as if the program
 * began there.  It leaves its frame to the function: where the program begins, whoever calls it keeps and puts back. */
PyObject *program_call_apart(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* launcher(*kept) -> kept: where the program begins; from now on where it did when `kept` was returned. */
PyObject *program_launcher(PyObject *self, PyObject *args);

/* exec() is called: is it by `beginner`, for the first time?  Then its frame is the launcher's last from now on. */
bool program_begins_now(void);

#endif
