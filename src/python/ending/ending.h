/* ending.h - the ways in which a process ends: what their files offer; with the GIL, where nothing else is said.
 */
#ifndef PYH_ENDING_H
#define PYH_ENDING_H

#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>

/* --- at_exit.c ----------------------------------------------------------------------------------- */

/* finish(ends): is the interpreter being taken down?  Or does the program run its exit functions itself, to exec
 * another one or to go on?  Then its signals are left alone.  `signal` is the module _signal, which the program may have
 * removed.  If the interpreter is to die of a KeyboardInterrupt, waits for the files: there will be no exit(). */
PyObject *at_exit_call(PyObject *signal, PyObject *finish);

/* Holds the signals that Python code handles, for good. */
void at_exit_hold_signals(PyObject *signal);

/* --- companion.c --------------------------------------------------------------------------------- */

/* `socket` is ours from now on.  0 or -errno. */
int companion_keep(int socket);

/* What it has said so far, after it has said more, has ended, or `timeout_ms` have passed. */
const char *companion_said(int timeout_ms, bool *has_ended);

/* Lets it end, waits until it has, and writes its line to standard error. */
void companion_wait(void);

/* Lets it end. */
void companion_drop(void);

/* --- end_methods.c ------------------------------------------------------------------------------- */

/* prepare_exit, wait_at_exit, at_exit, on_leaving, spawn, spawn_orphan; the last one is empty. */
extern PyMethodDef end_methods[];

/* --- exit_wait.c --------------------------------------------------------------------------------- */

/* exit() will wait: what is registered with atexit() later, by libraries of the program, is done before.
 * Returns 0 or -ENOMEM. */
int exit_wait_prepare(void);

/* Where the finishing process is told, as a uint64_t, what CPU time (ns) this process has taken to end: from exit_wait_for
 * until it waits.  The caller's to pass on and to close; -errno. */
int exit_wait_socket(void);

/* For `child`, which makes the profile of `spool` (copied); if it is killed, a line on standard error says so.
 * Signals that are held (late_signals.c) do not end the wait; an interrupt goes on to the child. */
void exit_wait_for(int child, const char *spool);

/* Waits at once: the process will not come to exit(). */
void exit_wait_now(void);

/* --- late_signals.c ------------------------------------------------------------------------------ */

/* One that comes is ignored from now on. */
void late_signal_hold(int number);

/* Those that are held are ignored for as long again, and a second. */
void late_signals_release(void);

/* Ignored again, also those that got their default meanwhile. */
void late_signals_hold_again(void);

/* A SIGINT that is sent to this process alone, or was while none was told, goes on to process `pid`; 0: to none. */
void late_signals_interrupt(pid_t pid);

/* --- leave.c ------------------------------------------------------------------------------------- */

/* callback(execs: bool), before this process ends so, once; what it raises is forgotten.  Events and samples are
 * off by then. */
void leave_watch(PyObject *callback);
/* No more; also in a forked child, without Python. */
void leave_unwatch(void);
/* Before os.exec*(), with the audit event's path, arguments, environment: true if the callback has been called. */
bool leave_by_exec(PyObject *args);

/* --- own_process.c ------------------------------------------------------------------------------- */

/* A child, with our standard error, if that is open, and SIGINT blocked; `input` (-1: nothing) is its standard input.  Its
 * process number, or -errno. */
pid_t own_process_child(const char *path, char *const argv[], char *const environment[], int lock,
                        int input);

/* No child, without standard streams.  0 or -errno. */
int own_process_orphan(const char *path, char *const argv[], char *const environment[], int lock);

/* Would an orphan be a child of this process, as that of process 1 and of a subreaper is? */
int own_process_comes_back(void);

#endif
