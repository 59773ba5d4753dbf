/* session.h - the running session, and what the files of the room offer one another.
 */
#ifndef PYH_SESSION_H
#define PYH_SESSION_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>

#include "arch_x86_64.h"
#include "call_tree.h"
#include "clock.h"
#include "clock_ops.h"
#include "codes.h"
#include "newborn.h"
#include "own_fd.h"
#include "perf_clocks.h"
#include "sampler.h"
#include "sigtrap.h"
#include "task_list.h"
#include "thread.h"
#include "trap_guard.h"

/* --- session.c ----------------------------------------------------------------------------------- */

enum session_state { SESSION_STARTING, SESSION_RUNNING, SESSION_PAUSED, SESSION_STOPPING };

typedef size_t (*unwind_backend)(void *context, struct native_frame *out, size_t max,
                                 enum unwind_end *end);

struct session {
    _Atomic int state;
    uint32_t generation; /* distinguishes a thread's cached record from an earlier session's */
    enum sampler_clock clock;
    _Atomic(const struct clock_ops *) clock_ops; /* one may give way to another */
    bool exclude_kernel;
    _Atomic uint64_t period_ns;
    struct py_layout layout;
    struct thread_limits limits;
    uint64_t main_stack_high;
    struct codes *codes;
    struct exact *exact; /* NULL: no events */
    struct registry registry;
    unwind_backend backend;     /* NULL: our own */
    _Atomic uint64_t not_ready; /* signals that found no record */
    _Atomic int calibrating;    /* do the work, record nothing */
    _Atomic uint64_t calibration_signals;
    _Atomic bool idle;        /* sampler_idle */
    _Atomic bool trap_wanted; /* the program handles SIGTRAP (trap_guard.h) */
    _Atomic bool ring_fills;  /* thread_is_urgent, of some thread; the collector takes it back */

    /* Below: not for the handler. */
    struct spool *spool;
    struct drain *drain;
    pid_t measuring_tid;                     /* the thread that measures what a sample costs */
    char wall_threads[SAMPLER_PATTERNS_MAX]; /* thread_names.c; empty: all threads */
    bool skips_new;        /* what new threads did until now, in a pause, counts nowhere */
    bool holds_trap;       /* SIGTRAP was taken */
    const char *trap_lost; /* why sigtrap gave way; NULL: it did not */
    struct perf_clocks perf;
    struct trap_guards guards;
    struct newborns newborns;
    uint64_t tick_ns;         /* the kernel's */
    bool guard_failed;        /* a thread that lives has none */
    uint64_t asked_period_ns; /* period_ns may be longer while a sample's cost is measured */
    pthread_t collector;
    _Atomic int collector_tid, ready, stop_wanted;
    _Atomic uint32_t nudged; /* session_nudge */
    pthread_cond_t is_ready;
    int fd_floor;
    struct task_list tasks;
    struct own_fd status;   /* /proc/self/status */
    bool looks;             /* sampler_set_look */
    bool in_forked_child;   /* sampler_options.inherits */
    bool look_again;        /* for threads, whether or not the list has changed */
    uint64_t scan_after_ns; /* the next list of threads */
    uint64_t start_ns, start_cpu_ns;
    uint64_t paused_cpu_ns;                 /* the process's CPU time when sampling was paused */
    uint64_t start_ours_ns, paused_ours_ns; /* the same two of the collector's */
    int64_t unaccounted_ns;                 /* session_unaccounted_ns at the end; 0: not known */
    uint64_t ended_ns;                    /* what the clocks of threads that have ended stand for */
    uint64_t counted_from_ns;             /* the start, or when sampling was resumed */
    uint64_t changed_ns;                  /* when a thread came or went, or a nudge came */
    uint64_t look_ns;                     /* thread_names.c: the first thread's next look */
    uint32_t n_threads, n_threads_looked; /* until now, and until the look before */
    int n_looks_new;                      /* that found threads that had begun, one after another */
    _Atomic uint32_t n_forked, n_spawned;
    /* Before an exec, at least; UINT64_MAX: until sampler_resume. */
    _Atomic uint64_t paused_until_ns;
    _Atomic uint64_t idle_since_ns; /* 0: it never was */
    /* Where timers drive it: the thread that let it be idle first since they run, and its CPU clock then.  0: none. */
    _Atomic pid_t idle_tid;
    _Atomic uint64_t idle_cpu_ns;
    uint64_t exec_until_ns; /* before this, one is about to: nobody enables the clocks */
    pid_t exec_tid;         /* the thread that is to exec, and its CPU clock then */
    uint64_t exec_cpu_ns;
    bool signal_taken; /* the program took our signal: sampling ended early */
    int spare_signal;  /* it took SIGPROF, and samples come by this one; 0: it did not */
    int first_error;
};

/* The session that handlers use, or NULL. */
extern _Atomic(struct session *) session_current;

/* session.c: which one runs.  Held by the collector but while it waits, so also while it waits for the loader,
 * whose lock a thread may hold that waits for the GIL.  So nobody may wait for it with the GIL (session_block). */
extern pthread_mutex_t session_lock;

/* Calls what(arg) without the GIL. */
void session_block(void (*what)(void *), void *arg);

/* Returns the session that runs or ends, or NULL.  Call it with the GIL or session_lock. */
struct session *session_get(void);
/* Call it with the GIL, before or after the session's collector runs. */
void session_set(struct session *s);
/* Returns the running session with session_lock held; NULL, with the lock not held, if there is none or it ends. */
struct session *session_lock_running(void);
/* In a forked child, frees the lock and leaves no session running.  Returns the parent's, or NULL. */
struct session *session_forget_in_child(void);

/* The number of handlers that are running; wait_for_handlers waits until none is. */
extern _Atomic int handlers_running;

static inline void wait_for_handlers(void)
{
    for (int tries = 0; atomic_load(&handlers_running); tries++)
        if (tries < 100)
            sched_yield();
        else
            clock_sleep_ns(20000); /* our priority may be higher than that of a handler's thread */
}

/* handler.c, signal side. */
void handler_on_signal(int signal, siginfo_t *info, void *context);
void handler_forks(bool forks); /* is the calling thread in fork()? */

/* Returns the value that signals of the timers that wake a thread (sleep_detection.c) carry; others carry the
 * session. */
static inline void *session_waking(struct session *s)
{
    return (char *)s + 1;
}

/* Returns a number from 1 to `below`, each as likely, another one each time.  Async-signal-safe. */
static inline uint64_t session_random(uint64_t seed, uint64_t below)
{
    uint64_t x = clock_now_ns() ^ seed << 32;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; /* the finalizer of SplitMix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return 1 + (x ^ x >> 31) % below;
}

/* Sets a timer's first expiry, and its period from there on; 0: never.  `timer` is the kernel's number.  Returns 0 or
 * -errno.  Async-signal-safe. */
static inline int session_set_timer(int timer, uint64_t first_ns, uint64_t period_ns)
{
    struct itimerspec spec = {
        {(time_t)(period_ns / 1000000000), (long)(period_ns % 1000000000)},
        {(time_t)(first_ns / 1000000000), (long)(first_ns % 1000000000)},
    };
    return (int)arch_syscall6(SYS_timer_settime, timer, 0, (long)&spec, 0, 0, 0);
}

/* Makes the collector look now, however quiet it was: a thread began, or a ring fills up.  Async-signal-safe. */
static inline void session_nudge(struct session *s)
{
    if (!atomic_exchange(&s->nudged, 1))
        arch_syscall6(SYS_futex, (long)&s->nudged, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static inline void session_each(struct session *s, void (*f)(struct session *, struct thread *))
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        f(s, t);
}

static inline const struct clock_ops *session_clock(const struct session *s)
{
    return atomic_load(&s->clock_ops);
}

/* collector.c, under session_lock: returns the CPU time of the process that no thread's clock stands for, nor the ticks
 * of those that have ended (newborn.h). */
int64_t session_unaccounted_ns(struct session *s);

/* pause.c, under session_lock.  Until `time_ns`, or (UINT64_MAX) session_resume, no clock ticks: */
void session_pause_until(struct session *s, uint64_t time_ns);
/* the same, with all that was sampled before written out and counted; */
void session_pause(struct session *s);
/* what the threads did since counts nowhere; */
void session_skip_pause(struct session *s);
/* that, and the clocks go on. */
void session_resume(struct session *s);
/* The same as session_pause, if nothing has counted for a while. */
void session_pause_idle(struct session *s);

extern void (*session_look)(void); /* sampler_set_look */

/* hooks.c: this process was forked by a thread that is not its parent's first, or by such a child.  Where that thread
 * returns, the process lives for as long as any other does, so the collector is not to be the last. */
extern bool session_ends_with_threads;

/* sampler.c: does what the last start has found out hold in this forked child? */
void sampler_found_in_parent(bool holds);

/* collector.c: the thread that finds threads, drains rings and writes the spool. */
int collector_start(struct session *s);
void collector_stop(struct session *s);
/* Under session_lock: */
void collector_drain(struct session *s); /* the rings; */
void collector_write(struct session *s); /* all that was measured, as of now */
/* the thread's counters go to the spool; */
void collector_snapshot(struct session *s, struct thread *t);
/* what its own clock's samples stand for, lost and missed ones, too; */
uint64_t collector_given_ns(struct session *s, struct thread *t);
/* its signals, with those that count nowhere, which are periods. */
uint64_t collector_signals(struct session *s, struct thread *t);

/* --- callers.c ----------------------------------------------------------------------------------- */

/* Returns how many places lie below `top`, a frame of the calling thread's shadow stack; 0: none, or more than are
 * noted. */
static inline uint32_t callers_of(const struct callers *c, const struct exact_frame *top)
{
    size_t n = (size_t)(top - exact_this_thread.thread->stack);
    return n <= c->max ? (uint32_t)n : 0;
}

/* Notes where the functions below `top` are, which runs and whose frame this sample's walk has met.  `u` has the
 * stack's bounds. */
void callers_note(struct callers *c, const struct unwind *u, const struct exact *x,
                  const struct exact_frame *top);

/* --- cost.c -------------------------------------------------------------------------------------- */

/* While it is measured: rates below this one cost less than would have to be limited. */
#define COST_PERIOD_NS 1000000ull

/* Takes samples that are not kept, which s->calibrating and COST_PERIOD_NS are set for, some ms of them; then
 * sets the rate that was asked for, or the one that costs a fifth of a core.  Sets info->cost_ns (0: no signal
 * came).  The session is paused then. */
void cost_limit_rate(struct session *s, uint64_t wanted_ns, struct sampler_info *info);

/* Nothing is measured: the session is paused, with the rate that it has. */
void cost_is_known(struct session *s);

/* --- previous_handler.c -------------------------------------------------------------------------- */

/* Returns what SIGPROF, SIGTRAP, or the one other signal that is ours, did before it was taken (signals.c), or is to do
 * now.  It outlives the session: a SIGTRAP may come after its end (sigtrap.h). */
struct sigaction *previous_handler(int number);

/* Does that for a signal that is not ours.  It may not return. */
void previous_handler_pass_on(int number, siginfo_t *info, void *context);

/* libc's sigaction, while calls of it are watched (trap_guard.h). */
extern uint64_t previous_handler_watched_call;

/* If the context is at such a call about SIGTRAP, does what the call asks for and makes it do nothing.  Returns whether
 * the program has a handler from now on. */
bool previous_handler_take_call(ucontext_t *context);

/* --- signals.c ----------------------------------------------------------------------------------- */

/* Makes handler_on_signal the handler of `number`. */
void signal_take(int number);

/* Returns whether it still is: the program may have installed another handler. */
bool signal_is_taken(int number);

/* Returns whether the signal may be taken: it does what it does by default, or would without us. */
bool signal_is_free(int number);

/* Drops pending signals of `number`, if it is ours; nothing else changes.  A thread that blocks the signal may still
 * get one: an event that was closed may have one under way. */
void signal_drop_pending(int number);

/* Restores what the signal did before; again nothing is pending. */
void signal_give_back(int number);

/* --- thread_names.c ------------------------------------------------------------------------------ */

struct session;

struct sampler_options;

/* Returns 0, or -EINVAL if there are more patterns than there is room for. */
int names_prepare(struct session *s, const struct sampler_options *options);

/* `threading` has this name for the thread: it is recorded in the spool, and the thread may be chosen by it. */
void names_record(struct session *s, struct thread *t, const char *name, size_t length);

/* Looks at those threads for which it is time.  A new name is recorded in the spool; a thread that is chosen by it gets
 * its clock. */
void names_look(struct session *s, uint64_t now);

/* Looks at the thread, whenever the last time was. */
void names_look_now(struct session *s, struct thread *t);

/* Returns whether the thread is to have a clock. */
bool names_choose(struct session *s, const struct thread *t);

/* Gives the chosen threads their clocks: what a sample costs has been measured, for which one thread had one. */
void names_settle(struct session *s);

/* --- thread_registration.c ----------------------------------------------------------------------- */

struct exact_thread;
struct session;
struct thread;

/* Makes the record of a thread just seen, or numbers the one that it claimed.  `listed` is its number in /proc, 0 if
 * not known.  Returns false if there is no memory. */
bool admit(struct session *s, pid_t tid, pid_t listed);
void admit_claimed(struct session *s);

/* The exact_drain_number of `session`.  Call it before the thread's record is taken out of the registry (collector.c's
 * retire): after that it could not be distinguished from one that was never there. */
uint32_t admit_exact(void *session, struct exact_thread *e);

/* The samples of the thread's ticks stand for what it ran until now, by its CPU clock, before it had a clock of its
 * own. */
void share_among_ticks(struct thread *t, uint64_t cpu_ns);

/* Returns whether the thread lives; the list of threads may lack it, since it is read while threads come and go. */
bool thread_lives(pid_t tid);

/* --- thread_scan.c ------------------------------------------------------------------------------- */

struct session;
struct thread;

/* Looks for new and ended threads. */
void thread_scan(struct session *s);

/* The same, unless it took so long of late that it is not time yet; also makes stock for threads that admit
 * themselves. */
void thread_scan_in_turn(struct session *s, uint64_t now);

/* Gives a clock of its own to a thread that ran for long and had no signal: one that no covered thread created,
 * whose creator's event is gone, or for which there was no clock to be had. */
void thread_cover(struct session *s, struct thread *t);

/* Gives a clock of its own to a thread that has only its ticks. */
void thread_end_ticks(struct session *s, struct thread *t);

/* Writes what a thread that blocks our signal ran since the last look as such (drain_blocked). */
void thread_look_blocked(struct session *s, struct thread *t);

/* --- sleep_detection.c --------------------------------------------------------------------------- */

struct session;

#define ASLEEP_SAMPLES 4
#define ASLEEP_AFTER_NS 20000000ull

/* Looks at the thread: writes that its sample holds while it sleeps, or wakes it. */
void sleep_detection_look(struct session *s, struct thread *t);

/* Ends the thread's sleep, whose sample holds until now: sampling pauses or ends, or the thread is gone.  What is not
 * known to have been waiting counts as missed. */
void sleep_detection_end(struct session *s, struct thread *t);

/* --- engine.c ------------------------------------------------------------------------------------ */

/* Finds the clock that `options` get here: sets s->clock_ops and info's fields of it.  Returns 0, or -errno with
 * info->engine_reason. */
int engine_probe(struct session *s, const struct sampler_options *options,
                 struct sampler_info *info);

/* What engine_probe found, beside info's fields. */
struct engine_choice {
    const struct clock_ops *clock;
    bool exclude_kernel, kernel_frames;
};
struct engine_choice engine_chosen(const struct session *s);
/* In a forked child: sets what the parent's engine_probe found.  Returns 0 or -errno. */
int engine_inherit(struct session *s, const struct engine_choice *found);

/* They do what those of struct clock_ops do. */
int engine_open(struct session *s, struct thread *t);
void engine_close(struct session *s, struct thread *t);
void engine_retire(struct session *s, struct thread *t);
void engine_set_period(struct session *s, struct thread *t);
void engine_enable_all(struct session *s, bool enable);

/* Closes all clocks, also those that belong to no living thread. */
void engine_close_all(struct session *s);

/* The clock's signal is wanted elsewhere, for the reason `why`: another clock goes on, once all is drained. */
void engine_give_way(struct session *s, const char *why);

/* Returns the thread's CPU time by the kernel's count; after it ended, as far as it is known. */
uint64_t engine_cpu_ns(struct session *s, struct thread *t);

/* --- perf_event.c -------------------------------------------------------------------------------- */

/* Which event: of thread `tid` (0: the calling one), on processor `cpu` (-1: on any). */
struct perf_event_wish {
    pid_t tid;
    int cpu;
    uint64_t period_ns;
    bool sigtrap; /* see sigtrap.h; else SIGPROF, which the caller sets up */
    bool exclude_kernel;
    bool samples; /* also writes what kernel_ring.h reads */
    uint64_t
        call; /* not the time, but each call of the function that begins there, with sigtrap; 0: the time */
    bool apart; /* nothing, as perf_clocks_keep_apart needs it */
};

/* Returns a new descriptor or -errno.  The event is disabled. */
int perf_event_open(const struct perf_event_wish *wish);

/* Moves the descriptor to a number from `floor` on, closes `fd`, and finds the event's id.  Returns the new number or
 * -errno. */
int perf_event_settle(int fd, int floor, uint64_t *id);

/* Returns whether `fd` is still that event: the program may have closed it and use the number itself. */
bool perf_event_is(int fd, uint64_t id);

/* --- timers.c ------------------------------------------------------------------------------------ */

struct session;
struct thread;

int timers_open(struct session *s, struct thread *t); /* 0 or -errno */
/* Opens one beside the thread's event, which does not see the kernel (handler.c, weight_at_kernel_tick).  0 or -errno. */
int timers_open_for_kernel(struct session *s, struct thread *t);
void timers_close(struct session *s, struct thread *t);
void timers_set_period(struct session *s, struct thread *t);
void timers_enable_all(struct session *s, bool enable);
/* Returns the time between two ticks of the kernel (CONFIG_HZ), which is the resolution of the coarse clock; 4 ms where that is not known. */
uint64_t timers_tick_ns(void);

#endif
