/* engine.c - the clock that drives the samples here, and one of it for each thread.
 *
 * Context: the collector thread, and under the session's lock sampler_start, _pause, _resume, _stop.
 *
 * Which clock there is here: sigtrap (sigtrap.h), perf_event (perf_clocks.h) or timers (timers.c).
 *
 * perf_event is fair, at any rate, but refused by many containers; unprivileged users' events do not see time in the
 * kernel, where a timer has to find it (handler.c, weight_at_kernel_tick).
 */
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

static int nothing_to_open(struct session *s, struct thread *t)
{
    (void)s;
    (void)t;
    return 0;
}

static void nothing_of_thread(struct session *s, struct thread *t)
{
    (void)s;
    (void)t;
}

static void nothing_of_all(struct session *s, bool enable)
{
    (void)s;
    (void)enable;
}

const struct clock_ops clock_none = {.engine = ENGINE_NONE,
                                     .open = nothing_to_open,
                                     .close = nothing_of_thread,
                                     .retire = nothing_of_thread,
                                     .set_period = nothing_of_thread,
                                     .enable_all = nothing_of_all};

/* perf_event if it can be had, and if it is worth more than timers or asked for; NULL with *error. */
static const struct clock_ops *perf_or_timer(struct session *s,
                                             const struct sampler_options *options,
                                             const char **reason, int *error)
{
    struct perf_event_wish wish = {.cpu = -1, .period_ns = options->period_ns};
    int fd = perf_event_open(&wish), refused = fd;
    if (fd >= 0) {
        close(fd);
        return &clock_perf_event;
    }
    wish.exclude_kernel = true;
    fd = perf_event_open(&wish);
    if (fd >= 0) {
        close(fd);
        s->exclude_kernel = true;
        *reason = "events do not see the kernel (sysctl kernel.perf_event_paranoid=1 lets them): "
                  "its ticks sample that";
        return &clock_perf_event;
    }
    *reason = refused == -EACCES || refused == -EPERM
                  ? "perf_event_open is not permitted (sysctl kernel.perf_event_paranoid, seccomp)"
                  : "perf_event_open does not work here";
    if (options->engine != ENGINE_PERF_EVENT)
        return &clock_timer;
    *error = refused;
    return NULL;
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

/* The clock, or NULL with *error; *reason: why it is not a better one. */
static const struct clock_ops *choose(struct session *s, const struct sampler_options *options,
                                      const char **reason, int *error)
{
    enum sampler_engine asked = options->engine;
    if (asked == ENGINE_NONE)
        return &clock_none;
    if (options->clock == CLOCK_WALL)
        return &clock_monotonic;
    if (asked == ENGINE_TIMER) {
        *reason = "asked for";
        return &clock_timer;
    }
    if (asked == ENGINE_PERF_EVENT)
        return perf_or_timer(s, options, reason, error);
    const char *refused = threads_refused(s);
    if (refused && asked == ENGINE_AUTO) {
        *reason = refused;
        return &clock_timer;
    }
    if (!refused)
        refused = sigtrap_refused(options->period_ns);
    const char *unguarded = refused ? NULL : trap_guard_refused();
    if (!refused && (!unguarded || asked == ENGINE_SIGTRAP)) {
        *reason = unguarded ? unguarded : "";
        *error = unguarded ? 0 : trap_guards_init(&s->guards, s->perf.max / 2);
        return *error ? NULL : &clock_sigtrap;
    }
    if (!refused)
        refused = unguarded;
    if (asked == ENGINE_SIGTRAP) {
        *reason = refused;
        *error = -ENOTSUP;
        return NULL;
    }
    const struct clock_ops *found = perf_or_timer(s, options, reason, error);
    if (found == &clock_perf_event && !s->exclude_kernel)
        *reason = refused;
    return found;
}

#define CPUS_FEW 16 /* a thread that begins takes 1.5 us more for each */

/* Why there are no frames of the kernel; NULL: there are. */
static const char *kernel_frames_refused(const struct session *s, int wanted)
{
    const struct clock_ops *clock = session_clock(s);
    if (wanted < 0)
        return "not wanted";
    if (!clock->knows_kernel)
        return "this clock does not know them";
    if (s->exclude_kernel)
        return "the kernel hides itself (kernel.perf_event_paranoid)";
    int n_cpus = s->perf.n_cpus;
    if (clock->is_inherited && (n_cpus < 1 || (!wanted && n_cpus > CPUS_FEW)))
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
    int error = 0;
    info->engine_reason = "";
    const struct clock_ops *clock = choose(s, options, &info->engine_reason, &error);
    if (!clock)
        return error;
    atomic_store(&s->clock_ops, clock);
    info->engine = clock->engine;
    info->no_kernel_frames = kernel_frames_refused(s, options->kernel_frames);
    s->perf.kernel_frames = !info->no_kernel_frames;
    return 0;
}

struct engine_choice engine_chosen(const struct session *s)
{
    return (struct engine_choice){session_clock(s), s->exclude_kernel, s->perf.kernel_frames};
}

int engine_inherit(struct session *s, const struct engine_choice *found)
{
    atomic_store(&s->clock_ops, found->clock);
    s->exclude_kernel = found->exclude_kernel;
    s->perf.kernel_frames = found->kernel_frames;
    bool guarded = found->clock->signal == SIGTRAP;
    return guarded ? trap_guards_init(&s->guards, s->perf.max / 2) : 0;
}

int engine_open(struct session *s, struct thread *t)
{
    return s->signal_taken ? 0 : session_clock(s)->open(s, t);
}

void engine_close(struct session *s, struct thread *t)
{
    session_clock(s)->close(s, t);
}

void engine_retire(struct session *s, struct thread *t)
{
    session_clock(s)->retire(s, t);
}

void engine_set_period(struct session *s, struct thread *t)
{
    session_clock(s)->set_period(s, t);
}

void engine_enable_all(struct session *s, bool enable)
{
    session_clock(s)->enable_all(s, enable);
    newborns_enable(s, enable);
}

void engine_close_all(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        engine_close(s, t);
    perf_clocks_close_kept(s);
    trap_guards_close(&s->guards);
}

/* A signal that nobody handles: the kernel queues those of the real-time signals, but of a timer's one at most. */
static int spare_signal(void)
{
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--)
        if (signal_is_free(number))
            return number;
    return 0;
}

void engine_give_way(struct session *s, const char *why)
{
    engine_close_all(s);
    const struct clock_ops *instead = session_clock(s)->instead;
    if (session_clock(s)->signal == SIGTRAP)
        s->trap_lost = why;
    else
        s->spare_signal = clock_timer_spare.signal = clock_monotonic_spare.signal = spare_signal();
    s->signal_taken = !instead->signal;
    if (s->signal_taken) {
        wait_for_handlers();
        newborns_close(&s->newborns);
        return;
    }
    signal_take(instead->signal);
    atomic_store(&s->clock_ops, instead);
    wait_for_handlers(); /* from here on a thread that begins gets the other signal */
    newborns_close(&s->newborns);
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        engine_open(s, t);
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
