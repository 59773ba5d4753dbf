/* thread_scan.h - threads that came or went: the new ones get a record and a clock, what the others left is written.
 *
 * Context: the collector, or under session_lock.
 */
#ifndef PYH_THREAD_SCAN_H
#define PYH_THREAD_SCAN_H

#include <stdint.h>

struct session;
struct thread;

/* Looks for new and ended threads. */
void thread_scan(struct session *s);

/* The same, unless it took so long of late that it is not time yet; and stock for those that admit themselves. */
void thread_scan_in_turn(struct session *s, uint64_t now);

/* Gives a clock of its own to a thread that ran for long and had no signal: one that no covered thread created,
 * whose creator's event is gone, or for which there was no clock to be had. */
void thread_cover(struct session *s, struct thread *t);

/* A thread that has but its ticks gets a clock of its own. */
void thread_end_ticks(struct session *s, struct thread *t);

/* What a thread that blocks our signal ran since the last look is written as such (drain_blocked). */
void thread_look_blocked(struct session *s, struct thread *t);

#endif
