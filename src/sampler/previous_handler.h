/* previous_handler.h - what signals that we have taken do for the program.
 *
 * Context: async-signal-safe.
 */
#ifndef PYH_PREVIOUS_HANDLER_H
#define PYH_PREVIOUS_HANDLER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* What SIGPROF, SIGTRAP, or the one other signal that is ours, did before it was taken (signals.h), or is to do now.  Outlives the session: a SIGTRAP may
 * come after its end (sigtrap.h). */
struct sigaction *previous_handler(int number);

/* One that is not ours does that.  It may not return. */
void previous_handler_pass_on(int number, siginfo_t *info, void *context);

/* libc's sigaction, while calls of it are watched (trap_guard.h). */
extern uint64_t previous_handler_watched_call;

/* If the context is at such a call, and that is about SIGTRAP: what it asks for is done, and it will do nothing.  Whether the
 * program has a handler from now on. */
bool previous_handler_take_call(ucontext_t *context);

#endif
