/* trap_guard.h - the kernel reports what the program asks of SIGTRAP before it happens.
 *
 * Crash handlers (abseil's, LLVM's, breakpad's, .NET's) take SIGTRAP, too, and end the program by it: the next sample
 * would be its death, and so would one that was under way.  They are installed at any time, by libraries that nobody
 * knows, but by one function: libc's sigaction, which its signal() calls, too.  So each thread has a breakpoint there,
 * a perf event like those of its clock, which threads that it creates inherit.  It costs a call of sigaction 30 us, a
 * change of threads 0.1, a thread's begin 3, and one of the processor's four debug registers.
 *
 * The thread gets its SIGTRAP at the function's first instruction.  If the call is about SIGTRAP our handler does what
 * it asks for, and makes of it one that does nothing: our handler stays, and what the program wants is what it does
 * with signals that are not ours (previous_handler.c).  If that is a handler, the collector leaves sigtrap.
 *
 * What is not seen: system calls without libc; a call while the thread blocks SIGTRAP, which then comes when it
 * does no more.
 *
 * Context: as sigtrap.h.
 */
#ifndef PYH_TRAP_GUARD_H
#define PYH_TRAP_GUARD_H

#include <stdint.h>
#include <sys/types.h>

struct session;

struct trap_guard {
    int fd;
    uint64_t id;
};

struct trap_guards {
    struct trap_guard *of; /* NULL: none are wanted */
    int n, max;
};

/* Returns why there can be no guard, or NULL if there can.  It tries on the calling thread, while nobody handles
 * SIGTRAP. */
const char *trap_guard_refused(void);

/* Makes room for up to `max` threads.  Returns 0 or -ENOMEM. */
int trap_guards_init(struct trap_guards *g, int max);
void trap_guards_free(struct trap_guards *g);

/* Guards a thread until all guards are closed.  Returns 0, also if none are wanted, or -errno. */
int trap_guards_add(struct session *s, pid_t tid);
void trap_guards_close(struct trap_guards *g);
void trap_guards_abandon(struct trap_guards *g); /* in a forked child */

#endif
