/* exit_wait.h - the profiled process ends only when the process that finishes its profile has.
 *
 * That process works while the interpreter is taken down, which takes a program with PyTorch a second; it is
 * waited for in exit(), after that.
 *
 * Context: ordinary; with the GIL.
 */
#ifndef PYH_EXIT_WAIT_H
#define PYH_EXIT_WAIT_H

/* exit() will wait: what is registered with atexit() later, by libraries of the program, is done before.
 * Returns 0 or -ENOMEM. */
int exit_wait_prepare(void);

/* For `child`, which makes the profile of `spool` (copied).  If it is killed or interrupted, a line on standard
 * error says so. */
void exit_wait_for(int child, const char *spool);

#endif
