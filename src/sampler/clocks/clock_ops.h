/* clock_ops.h - a kind of clock that sends the signals: what the rest of the sampler needs to know of it, and to ask of
 * it.
 *
 * Context: the fields are read anywhere, also by the handler; the functions are called by the collector, and under the
 * session's lock by sampler_start, _pause, _resume and _stop.
 */
#ifndef PYH_CLOCK_OPS_H
#define PYH_CLOCK_OPS_H

#include <stdbool.h>

#include "sampler.h"

struct session;
struct thread;

struct clock_ops {
    enum sampler_engine engine;
    int signal; /* SIGPROF, SIGTRAP, or one that the program has no use for; 0: it sends none, and nothing is sampled */
    bool
        is_inherited; /* threads that a covered one creates have it from their first instruction on */
    bool
        is_tick_bound; /* it expires at the kernel's ticks: a signal stands for 1 + overrun periods, and time since the
                         * last tick is forgotten when it stops */
    bool by_descriptor; /* its signals name a descriptor: si_code is POLL_IN to POLL_HUP */
    bool
        corrects_period; /* its period is mended for signals that do not come (period_correction.h) */
    bool knows_kernel;   /* it can record where in the kernel it came */
    const struct clock_ops *instead; /* what it gives way to; NULL: it never does */

    /* Opens a thread's clock, which ticks if the session runs.  Returns 0, or -errno with nothing open. */
    int (*open)(struct session *s, struct thread *t);
    void (*close)(struct session *s, struct thread *t);
    /* The thread has ended: as `close`, but for what other threads live by. */
    void (*retire)(struct session *s, struct thread *t);
    void (*set_period)(struct session *s, struct thread *t);
    /* Enables or disables all threads' clocks. */
    void (*enable_all)(struct session *s, bool enable);
    /* Returns why it has to give way now, or NULL if it has not.  Where `thorough`, checks that take longer are made,
     * too.  Set together with `instead`. */
    const char *(*must_leave)(struct session *s, bool thorough);
};

extern const struct clock_ops clock_none, clock_timer, clock_monotonic, clock_perf_event,
    clock_sigtrap;

/* The timers where SIGPROF is the program's: `signal` is found when they are needed (engine_give_way). */
extern struct clock_ops clock_timer_spare, clock_monotonic_spare;

/* The must_leave of clocks that send SIGPROF. */
const char *timers_must_leave(struct session *s, bool thorough);

#endif
