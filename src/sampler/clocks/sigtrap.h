/* sigtrap.h - perf events that send SIGTRAP to the thread that runs, and that new threads inherit.
 *
 * Such an event (man 2 perf_event_open: sigtrap, inherit_thread; Linux 5.13) costs less than
 * F_SETSIG, interrupts no system call, and needs no work for threads that covered ones create.
 *
 * What it asks for in return:
 *  - Nobody else may handle SIGTRAP: trap_guard.h.
 *  - An event must stay open when its thread has ended: those inherited from it would end with it.
 *  - A signal can come after the event was closed, when its thread comes back from a system call that
 *    it was in.  So at the end the handler stays if other threads live: SIGTRAP's default is death.
 *  - One that threads inherit can have a ring (kernel_ring.h) only if it is for one processor.
 *  - Linux before 6.15 may wait in close() until such a thread comes back.  It is not used there.
 *
 * Context: the collector thread, sampler_start and sampler_stop.
 */
#ifndef PYH_SIGTRAP_H
#define PYH_SIGTRAP_H

#include <stdbool.h>
#include <stdint.h>

#define TRAP_OF_PERF 6                     /* TRAP_PERF, which older headers lack */
#define SIGTRAP_DATA 0x7079687962726964ull /* "pyhybrid": marks the signals of our events */
#define SIGTRAP_CALL_DATA                                                                          \
    0x7079687963616c6cull   /* "pyhycall": a call is about to be made (trap_guard.h) */
#define SIGTRAP_KEPT_MAX 64 /* threads that have ended and whose events stay */

/* Returns why this engine is not available here, or NULL if it is. */
const char *sigtrap_refused(uint64_t period_ns);

/* Returns whether a debugger, which would stop at every SIGTRAP, watches the process by `status`, /proc/self/status. */
struct own_fd;
bool sigtrap_watched(const struct own_fd *status);

/* Returns whether threads other than the caller and `ours` live. */
bool sigtrap_others_live(int ours);

#endif
