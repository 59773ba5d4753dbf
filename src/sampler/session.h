/* session.h - what one run of the sampler shares between its parts.  Private to src/sampler/.
 *
 * Context: filled by sampler_start before any signal can come, then read-only but for the fields
 * marked atomic.
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
#include <sys/syscall.h>
#include <time.h>

#include "arch_x86_64.h"
#include "clock.h"
#include "clock_ops.h"
#include "codes.h"
#include "call_tree.h"
#include "newborn.h"
#include "own_fd.h"
#include "perf_clocks.h"
#include "sampler.h"
#include "sigtrap.h"
#include "task_list.h"
#include "thread.h"
#include "trap_guard.h"

enum session_state { SESSION_STARTING, SESSION_RUNNING, SESSION_PAUSED, SESSION_STOPPING };

typedef size_t (*unwind_backend)(void *context, struct native_frame *out, size_t max,
                                 enum unwind_end *end);

struct session {
    _Atomic int state;
    uint32_t generation; /* tells a thread's cached record from an earlier session's */
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
    char wall_threads[SAMPLER_PATTERNS_MAX]; /* thread_names.h; empty: all threads */
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
    bool look_again;        /* for threads, whatever the list says */
    uint64_t scan_after_ns; /* the next list of threads */
    uint64_t start_ns, start_cpu_ns;
    uint64_t paused_cpu_ns;                 /* the process's CPU time when sampling was paused */
    uint64_t start_ours_ns, paused_ours_ns; /* the same two of the collector's */
    int64_t unaccounted_ns;                 /* session_unaccounted_ns at the end; 0: not known */
    uint64_t ended_ns;        /* what the clocks of threads that have ended stand for */
    uint64_t counted_from_ns; /* the start, or when sampling was resumed */
    uint64_t changed_ns;      /* when a thread came or went, or a nudge came */
    uint64_t look_ns;         /* thread_names.h: the first thread's next look */
    uint32_t n_threads;
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

/* what(arg), without the GIL. */
void session_block(void (*what)(void *), void *arg);

/* The one that runs or ends, or NULL.  With the GIL or session_lock. */
struct session *session_get(void);
/* With the GIL, and before or after its collector runs. */
void session_set(struct session *s);
/* The one that runs, with session_lock held; NULL, and not held: there is none, or it ends. */
struct session *session_lock_running(void);
/* In a forked child: the lock is free and no session runs.  Returns the parent's, or NULL. */
struct session *session_forget_in_child(void);

/* How many handlers are running, and until none is. */
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

/* What signals of the timers that wake a thread (asleep.h) bring along; the others': the session. */
static inline void *session_waking(struct session *s)
{
    return (char *)s + 1;
}

/* 1 to `below`, each as likely, another one each time.  Async-signal-safe. */
static inline uint64_t session_random(uint64_t seed, uint64_t below)
{
    uint64_t x = clock_now_ns() ^ seed << 32;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; /* the finalizer of SplitMix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return 1 + (x ^ x >> 31) % below;
}

/* Its first expiry, and the period from there on; 0: never.  `timer`: the kernel's number.  Async-signal-safe.  0 or -errno. */
static inline int session_set_timer(int timer, uint64_t first_ns, uint64_t period_ns)
{
    struct itimerspec spec = {
        {(time_t)(period_ns / 1000000000), (long)(period_ns % 1000000000)},
        {(time_t)(first_ns / 1000000000), (long)(first_ns % 1000000000)},
    };
    return (int)arch_syscall6(SYS_timer_settime, timer, 0, (long)&spec, 0, 0, 0);
}

/* The collector looks now, however quiet it was: a thread began, or a ring fills up.  Async-signal-safe. */
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

/* collector.c, under session_lock: CPU time of the process that no thread's clock stands for, nor the ticks of those
 * that have ended (newborn.h). */
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

/* collector.c: the thread that finds threads, drains rings and writes the spool. */
int collector_start(struct session *s);
void collector_stop(struct session *s);
/* Under session_lock: */
void collector_drain(struct session *s); /* the rings; */
void collector_write(struct session *s); /* all that was measured, as of now */
/* what the thread's counters say goes to the spool; */
void collector_snapshot(struct session *s, struct thread *t);
/* what its own clock's samples stand for, lost and missed ones, too; */
uint64_t collector_given_ns(struct session *s, struct thread *t);
/* its signals, with those that count nowhere, which are periods. */
uint64_t collector_signals(struct session *s, struct thread *t);

#endif
