/* The clocks: which there are here, and one for each thread.
 *
 * sigtrap: a task-clock event that new threads inherit (sigtrap.h).
 * perf_event: a task-clock software event per thread (man 2 perf_event_open); every overflow sends
 * SIGPROF to the thread that it counts (F_SETSIG, F_SETOWN_EX).  Fair, at any rate, but refused by
 * many containers, and unprivileged users' events do not see time in the kernel.
 * Of threads for which descriptors are too few some have timers.
 * Timers: timer_create on the thread's CPU clock (or CLOCK_MONOTONIC) with SIGEV_THREAD_ID; bound to
 * the kernel's tick, so a sample stands for 1 + overrun periods.
 *
 * Context: the collector thread, and under the session's lock sampler_start, _pause, _resume, _stop.
 */
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "perf_event.h"
#include "thread_names.h"
#include "session.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int probe_perf(struct session *s, const struct sampler_options *options,
                      struct sampler_info *info)
{
    struct perf_event_wish wish = {.cpu = -1, .period_ns = options->period_ns};
    int fd = perf_event_open(&wish), error = fd;
    info->engine = ENGINE_PERF_EVENT;
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    wish.exclude_kernel = true;
    fd = perf_event_open(&wish);
    if (fd >= 0) {
        close(fd);
        s->exclude_kernel = true;
        info->engine_reason = "perf_event would not see time in the kernel "
                              "(kernel.perf_event_paranoid)";
    } else {
        info->engine_reason = error == -EACCES || error == -EPERM
                                  ? "perf_event_open is not permitted"
                                  : "perf_event_open does not work here";
    }
    if (options->engine != ENGINE_PERF_EVENT)
        info->engine = ENGINE_TIMER;
    else if (fd < 0)
        return error;
    return 0;
}

/* Why there cannot be a perf event for each thread that lives, and some that begin meanwhile; NULL: there can.
 * The folder has a link for each (fs/proc/base.c, proc_task_getattr). */
static const char *threads_refused(struct session *s)
{
    struct stat tasks;
    s->perf.n_expected = stat("/proc/self/task", &tasks) ? 0 : (int)tasks.st_nlink - 2;
    return s->perf.n_expected > s->perf.max - s->perf.max / 8
               ? "there are more threads than file descriptors for them (ulimit -n)"
               : NULL;
}

static int choose(struct session *s, const struct sampler_options *options,
                  struct sampler_info *info)
{
    info->engine = options->engine;
    info->engine_reason = "";
    if (options->engine == ENGINE_NONE)
        return 0;
    if (options->clock == CLOCK_WALL) {
        info->engine = ENGINE_MONOTONIC;
        return 0;
    }
    if (options->engine == ENGINE_TIMER) {
        info->engine_reason = "asked for";
        return 0;
    }
    if (options->engine == ENGINE_PERF_EVENT)
        return probe_perf(s, options, info);
    const char *refused = threads_refused(s);
    if (refused && options->engine == ENGINE_AUTO) {
        info->engine = ENGINE_TIMER;
        info->engine_reason = refused;
        return 0;
    }
    if (!refused)
        refused = sigtrap_refused(options->period_ns);
    const char *unguarded = refused ? NULL : trap_guard_refused();
    if (!refused && (!unguarded || options->engine == ENGINE_SIGTRAP)) {
        info->engine = ENGINE_SIGTRAP;
        info->engine_reason = unguarded ? unguarded : "";
        return unguarded ? 0 : trap_guards_init(&s->guards, s->perf.max / 2);
    }
    if (!refused)
        refused = unguarded;
    if (options->engine == ENGINE_SIGTRAP) {
        info->engine_reason = refused;
        return -ENOTSUP;
    }
    int error = probe_perf(s, options, info);
    if (info->engine == ENGINE_PERF_EVENT)
        info->engine_reason = refused;
    return error;
}

#define CPUS_FEW 16 /* a thread that begins takes 1.5 us more for each */

/* Why there are no frames of the kernel; NULL: there are. */
static const char *kernel_frames_refused(const struct session *s, int wanted)
{
    if (wanted < 0)
        return "not wanted";
    if (s->engine != ENGINE_SIGTRAP && s->engine != ENGINE_PERF_EVENT)
        return "this clock does not know them";
    if (s->exclude_kernel)
        return "the kernel hides itself (kernel.perf_event_paranoid)";
    int n_cpus = s->perf.n_cpus;
    if (s->engine == ENGINE_SIGTRAP && (n_cpus < 1 || (!wanted && n_cpus > CPUS_FEW)))
        return "there are more than 16 processors (--kernel)";
    struct perf_event_wish wish = {.cpu = -1, .period_ns = 1000000, .samples = true};
    int fd = perf_event_open(&wish);
    if (fd < 0)
        return "the kernel refuses";
    close(fd);
    return NULL;
}

int engine_probe(struct session *s, const struct sampler_options *options,
                 struct sampler_info *info)
{
    int error = choose(s, options, info);
    s->engine = info->engine;
    info->no_kernel_frames = kernel_frames_refused(s, options->kernel_frames);
    s->perf.kernel_frames = !info->no_kernel_frames;
    s->signal = info->engine == ENGINE_NONE      ? 0
                : info->engine == ENGINE_SIGTRAP ? SIGTRAP
                                                 : SIGPROF;
    return error;
}

/* The first expiry comes after any part of a period, each as likely: after a whole one, a thread would always have
 * fewer samples than periods, none if it lives shorter than that; and threads would be sampled in step. */
static int arm(const struct session *s, struct thread *t)
{
    uint64_t period_ns = atomic_load(&s->period_ns), x = clock_now_ns() ^ (uint64_t)t->tid << 32;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; /* the finalizer of SplitMix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return session_set_timer(t->timer, 1 + (x ^ x >> 31) % period_ns, period_ns);
}

static int create_timer(void *value, pid_t tid, clockid_t clock, void **timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr = value;
    event.sigev_notify_thread_id = tid;
    timer_t created;
    if (timer_create(clock, &event, &created))
        return -errno;
    *timer = created;
    return 0;
}

static int open_timer(struct session *s, struct thread *t)
{
    clockid_t cpu = clock_of_thread(t->tid);
    bool wall = s->clock == CLOCK_WALL;
    if (wall && !names_choose(s, t))
        return 0;
    int error = create_timer(s, t->tid, wall ? CLOCK_MONOTONIC : cpu, &t->timer);
    if (error)
        return error;
    t->has_timer = 1;
    t->has_cpu_timer = wall && !create_timer(session_waking(s), t->tid, cpu, &t->cpu_timer);
    return arm(s, t);
}

int engine_open(struct session *s, struct thread *t)
{
    if (s->engine == ENGINE_NONE || s->signal_taken)
        return 0;
    if (engine_by_timer(s->engine))
        return open_timer(s, t);
    int error = s->engine == ENGINE_SIGTRAP ? trap_guards_add(s, t->tid) : 0;
    s->guard_failed |= error && error != -ESRCH;
    error = perf_clocks_open(s, t);
    if (error != -EMFILE || s->engine != ENGINE_PERF_EVENT)
        return error;
    s->perf.n_mute += s->perf.kernel_frames;
    return open_timer(s, t);
}

void engine_close(struct session *s, struct thread *t)
{
    if (t->has_timer)
        timer_delete((timer_t)t->timer);
    if (t->has_cpu_timer)
        timer_delete((timer_t)t->cpu_timer);
    t->has_timer = 0;
    t->has_cpu_timer = false;
    perf_clocks_close(s, t);
}

void engine_retire(struct session *s, struct thread *t)
{
    perf_clocks_keep(s, t);
    engine_close(s, t);
}

void engine_close_all(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        engine_close(s, t);
    perf_clocks_close_kept(s);
}

void engine_set_period(struct session *s, struct thread *t)
{
    if (t->has_timer)
        arm(s, t);
    perf_clocks_set_period(s, t);
}

void engine_enable_all(struct session *s, bool enable)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        if (t->has_cpu_timer && !enable)
            session_set_timer(t->cpu_timer, 0, 0);
        if (t->has_timer && enable)
            arm(s, t);
        else if (t->has_timer)
            session_set_timer(t->timer, 0, 0);
    }
    perf_clocks_enable(s, enable);
}

uint64_t engine_cpu_ns(struct session *s, struct thread *t)
{
    /* Not the event's count while the clock can be had: it includes time stolen from the thread. */
    uint64_t ns = clock_read_ns(clock_of_thread(t->tid));
    uint64_t sampled = counter_get(&t->counters.cpu_ns);
    if (ns && ns >= t->base_cpu_ns && ns >= sampled)
        return t->last_cpu_ns = ns;
    sampled += counter_get(&t->counters.n_unread) * atomic_load(&s->period_ns);
    if (sampled || t->last_cpu_ns)
        return sampled > t->last_cpu_ns ? sampled : t->last_cpu_ns;
    return t->base_cpu_ns + perf_clocks_counted_ns(s, t);
}
