/* exit_wait.h - the profiled process waits for the one that finishes its profile, and for a companion (companion.h), at its
 * very end.
 *
 * That one works while the interpreter is taken down, which takes a program with PyTorch a second or two; exit()
 * then waits for what is left.  A process that ends otherwise (_exit, a signal) leaves it behind, and the files
 * come a little later.
 *
 * Context: ordinary.  The wait itself runs without an interpreter.
 */
#ifndef PYH_EXIT_WAIT_H
#define PYH_EXIT_WAIT_H

/* exit() will wait: what is registered with atexit() later, by libraries of the program, is done before.
 * Returns 0 or -ENOMEM. */
int exit_wait_prepare(void);

/* Where the finishing process is told, as a uint64_t, what CPU time (ns) this process has taken to end: from exit_wait_for
 * until it waits.  The caller's to pass on and to close; -errno. */
int exit_wait_socket(void);

/* For `child`, which makes the profile of `spool` (copied); if it is killed, a line on standard error says so.
 * Signals that are held (late_signals.h) do not end the wait; an interrupt goes on to the child. */
void exit_wait_for(int child, const char *spool);

/* Waits at once: the process will not come to exit(). */
void exit_wait_now(void);

#endif
