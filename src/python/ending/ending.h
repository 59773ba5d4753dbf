/* ending.h - the ways in which a process ends: what their files offer; with the GIL, unless otherwise stated.
 */
#ifndef PYH_ENDING_H
#define PYH_ENDING_H

#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>

/* --- at_exit.c ----------------------------------------------------------------------------------- */

/* finish(ends): is the interpreter being taken down?  Or does the program run its exit functions itself, to exec
 * another one or to go on?  Then its signals are left alone.  `signal` is the module _signal, which the program may
 * have removed.  If the interpreter is to die of a KeyboardInterrupt, waits for the files: there will be no exit(). */
PyObject *at_exit_call(PyObject *signal, PyObject *finish);

/* Holds the signals that Python code handles, for good. */
void at_exit_hold_signals(PyObject *signal);

/* --- companion.c --------------------------------------------------------------------------------- */

/* Keeps `socket`, which is ours from now on.  Returns 0 or -errno. */
int companion_keep(int socket);

/* Returns the companion's messages so far, once more have come, it has ended, or `timeout_ms` have passed. */
const char *companion_message(int timeout_ms, bool *has_ended);

/* Lets the companion end, waits until it has, and writes its line to standard error. */
void companion_wait(void);

/* Lets the companion end. */
void companion_drop(void);

/* Starts the watcher: a shell with these arguments, whose standard input is the socket; see own_process_orphan.  Returns
 * 0 or -errno. */
int watcher_start(char *const argv[], char *const environment[], int lock);

/* Lets the watcher end: another one makes the files, or there are none. */
void watcher_dismiss(void);

/* Call it in a forked child, whose end is not the program's. */
void watcher_forget(void);

/* --- end_methods.c ------------------------------------------------------------------------------- */

/* prepare_exit, wait_at_exit, at_exit, on_leaving, spawn, spawn_orphan, watch_end...; the last one is empty. */
extern PyMethodDef end_methods[];

/* --- exit_wait.c --------------------------------------------------------------------------------- */

/* Makes exit() wait: what is registered with atexit() later, by libraries of the program, is done before.
 * Returns 0 or -ENOMEM. */
int exit_wait_prepare(void);

/* Returns the socket where the finishing process gets, as a uint64_t, the CPU time (ns) that this process has taken to
 * end, from exit_wait_for until it waits; it is the caller's to pass on and to close.  Or -errno. */
int exit_wait_socket(void);

/* Makes exit() wait for `child`, which makes the profile of `spool` (copied); if it is killed, a line goes to standard
 * error.  Signals that are held (late_signals.c) do not end the wait; an interrupt goes on to the child. */
void exit_wait_for(int child, const char *spool);

/* Waits at once: the process will not come to exit(). */
void exit_wait_now(void);

/* --- late_signals.c ------------------------------------------------------------------------------ */

/* Ignores the signal from now on where it comes. */
void late_signal_hold(int number);

/* Ignores the signals that are held for as long again, and a second. */
void late_signals_release(void);

/* Ignores them again, also those that got their default meanwhile. */
void late_signals_hold_again(void);

/* Passes a SIGINT that is sent to this process alone, or was while no process was set, on to process `pid`; 0: to
 * none. */
void late_signals_interrupt(pid_t pid);

/* --- leave.c ------------------------------------------------------------------------------------- */

/* Calls callback(execs: bool) once before this process ends so; what it raises is forgotten.  Events and samples are
 * off by then. */
void leave_watch(PyObject *callback);
/* Watches no more; also in a forked child, without Python. */
void leave_unwatch(void);
/* Call it before os.exec*(), with the audit event's path, arguments, environment.  Returns true if the callback has
 * been called. */
bool leave_by_exec(PyObject *args);
/* Call it before os.kill(), os.killpg() and signal.pthread_kill(), with the audit event: what was measured is in the
 * spool if that ends this process.  Sets no exception. */
void leave_by_kill(const char *event, PyObject *args);

/* --- own_process.c ------------------------------------------------------------------------------- */

/* Starts a child, with our standard error, if that is open, and SIGINT blocked; `input` (-1: nothing) is its standard
 * input.  Returns its process number, or -errno. */
pid_t own_process_child(const char *path, char *const argv[], char *const environment[], int lock,
                        int input);

/* Starts a process that is no child, in a session of its own.  `input` (-1: nothing) is its standard input; its standard
 * error is ours if it `reports`; it has no other streams.  Returns 0 or -errno. */
int own_process_orphan(const char *path, char *const argv[], char *const environment[], int lock,
                       int input, bool reports);

/* Returns whether an orphan would be a child of this process, as that of process 1 and of a subreaper is. */
int own_process_comes_back(void);

#endif
