/* own_process.h - starts the processes that work for us: a child, or one that is no child of this process, so that its
 * wait() does not see it.
 *
 * In C, for the program may have replaced any function of Python's: debuggers do (os.posix_spawn, subprocess).
 *
 * `path` is run with these arguments and this environment; its descriptor 3 is `lock` (-1, or one that cannot be passed
 * on: none), all others but the standard streams are as close-on-exec says.  No machine needs to have /dev/null.
 *
 * Context: ordinary; no Python.
 */
#ifndef PYH_OWN_PROCESS_H
#define PYH_OWN_PROCESS_H

#include <sys/types.h>

/* A child, with our standard error, if that is open, and SIGINT blocked; `input` (-1: nothing) is its standard input.  Its
 * process number, or -errno. */
pid_t own_process_child(const char *path, char *const argv[], char *const environment[], int lock,
                        int input);

/* No child, without standard streams.  0 or -errno. */
int own_process_orphan(const char *path, char *const argv[], char *const environment[], int lock);

/* Would an orphan be a child of this process, as that of process 1 and of a subreaper is? */
int own_process_comes_back(void);

#endif
