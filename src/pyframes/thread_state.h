/* thread_state.h - what a sample knows of its thread besides the stack: the GIL, whether it waited, where.
 *
 * A thread waits for the GIL where it sleeps on the GIL's own lock: seen by the futex's address, with no
 * symbol.  A signal that ends a system call early finds the thread waiting in it.
 *
 * Context: async-signal-safe; for the calling thread, in its signal handler.
 */
#ifndef PYH_THREAD_STATE_H
#define PYH_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

enum gil_state { GIL_NEITHER, GIL_HELD, GIL_WAITING };

enum gil_state thread_gil(const ucontext_t *context);

/* Returns whether the signal ended a system call early, or before it was begun again. */
bool thread_was_waiting(const ucontext_t *context);

/* Returns the CPU that the thread runs on. */
uint32_t thread_cpu(void);

#endif
