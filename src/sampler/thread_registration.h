/* thread_registration.h - threads of the program become threads of the session, each one once: whoever meets it first, the list
 * of threads, a signal (thread.h) or an event (call_tree.h).
 *
 * Context: the collector, or under the session's lock.
 */
#ifndef PYH_THREAD_REGISTRATION_H
#define PYH_THREAD_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct exact_thread;
struct session;
struct thread;

/* Makes the record of a thread just seen, or numbers the one that it claimed.  `listed`: its number in /proc, 0: not known.
 * False: there is no memory. */
bool admit(struct session *s, pid_t tid, pid_t listed);
void admit_claimed(struct session *s);

/* trace_drain_number, of `session`.  Before the thread's record is taken out of the registry (collector.c's retire):
 * then it could not be told from one that was never there. */
uint32_t admit_exact(void *session, struct exact_thread *e);

/* What it ran until now, by its CPU clock, was before it had a clock of its own: it is what its ticks' samples stand for. */
void share_among_ticks(struct thread *t, uint64_t cpu_ns);

/* The list of threads may lack one: it is read while threads come and go. */
bool thread_lives(pid_t tid);

#endif
