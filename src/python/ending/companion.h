/* companion.h - a process beside this one that outlasts it, for which it waits at its very end.
 *
 * A socket is between the two.  That process sees its end when this one has come to its own, whichever way; what it has
 * to say it writes there: a `+` when it has begun what it is for, then, where it failed, a line for the user.
 *
 * Context: ordinary; companion_wait without an interpreter, too.
 */
#ifndef PYH_COMPANION_H
#define PYH_COMPANION_H

#include <stdbool.h>

/* `socket` is ours from now on.  0 or -errno. */
int companion_keep(int socket);

/* What it has said so far, after it has said more, has ended, or `timeout_ms` have passed. */
const char *companion_said(int timeout_ms, bool *has_ended);

/* Lets it end, waits until it has, and writes its line to standard error. */
void companion_wait(void);

/* Lets it end. */
void companion_drop(void);

#endif
