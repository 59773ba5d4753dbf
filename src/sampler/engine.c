/* The clocks: which there are here, and one for each thread.
 *
 * sigtrap: a task-clock event that new threads inherit (sigtrap.h).
 * perf_event: a task-clock software event per thread (man 2 perf_event_open); every overflow sends
 * SIGPROF to the thread that it counts (F_SETSIG, F_SETOWN_EX).  Fair, at any rate, but refused by
 * many containers, and unprivileged users' events do not see time in the kernel.
 * Timers: timer_create on the thread's CPU clock (or CLOCK_MONOTONIC) with SIGEV_THREAD_ID; bound to
 * the kernel's tick, so a sample stands for 1 + overrun periods.
 *
 * Context: the collector thread, and under the session's lock sampler_start, _pause, _resume, _stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "perf_event.h"
#include "session.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int probe_perf(struct session *s, const struct sampler_options *options,
                      struct sampler_info *info)
{
    int fd = perf_event_open_sigprof(0, options->period_ns, false), error = fd;
    info->engine = ENGINE_PERF_EVENT;
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    fd = perf_event_open_sigprof(0, options->period_ns, true);
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
    const char *refused = sigtrap_refused(options->period_ns);
    if (!refused) {
        info->engine = ENGINE_SIGTRAP;
        return 0;
    }
    if (options->engine == ENGINE_SIGTRAP) {
        info->engine_reason = refused;
        return -ENOTSUP;
    }
    int error = probe_perf(s, options, info);
    if (info->engine == ENGINE_PERF_EVENT)
        info->engine_reason = refused;
    return error;
}

int engine_probe(struct session *s, const struct sampler_options *options,
                 struct sampler_info *info)
{
    int error = choose(s, options, info);
    s->engine = info->engine;
    s->signal = info->engine == ENGINE_NONE      ? 0
                : info->engine == ENGINE_SIGTRAP ? SIGTRAP
                                                 : SIGPROF;
    return error;
}

/* Sends its SIGPROF to the thread that it counts. */
static int signal_thread(int fd, pid_t tid)
{
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    return fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) || fcntl(fd, F_SETSIG, SIGPROF) ||
                   fcntl(fd, F_SETOWN_EX, &owner)
               ? -errno
               : 0;
}

static int open_perf(struct session *s, struct thread *t)
{
    if (s->n_fds >= s->fd_budget)
        return -EMFILE;
    uint64_t period = atomic_load(&s->period_ns);
    bool trap = s->engine == ENGINE_SIGTRAP;
    int low = trap ? perf_event_open_sigtrap(t->tid, period)
                   : perf_event_open_sigprof(t->tid, period, s->exclude_kernel);
    int fd = low < 0 ? low : perf_event_settle(low, s->fd_floor, &t->event_id);
    if (fd < 0)
        return fd;
    int error = trap ? 0 : signal_thread(fd, t->tid);
    if (error) {
        close(fd);
        return error;
    }
    t->fd = fd;
    s->n_fds++;
    bool runs = atomic_load(&s->state) == SESSION_RUNNING; /* else enabled when it goes on */
    return runs && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

static int arm(void *timer, uint64_t period_ns)
{
    return session_set_timer(timer, period_ns, period_ns);
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
    int error = create_timer(s, t->tid, wall ? CLOCK_MONOTONIC : cpu, &t->timer);
    if (error)
        return error;
    t->has_timer = 1;
    t->has_cpu_timer = wall && !create_timer(session_waking(s), t->tid, cpu, &t->cpu_timer);
    return arm(t->timer, atomic_load(&s->period_ns));
}

int engine_open(struct session *s, struct thread *t)
{
    if (s->engine == ENGINE_NONE || s->signal_taken)
        return 0;
    return engine_by_timer(s->engine) ? open_timer(s, t) : open_perf(s, t);
}

/* Disabled first: a child that is being spawned holds the descriptor, too, until it execs. */
static void close_event(struct session *s, int fd, uint64_t id)
{
    if (perf_event_is(fd, id)) {
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        close(fd);
    }
    if (fd >= 0)
        s->n_fds--;
}

void engine_close(struct session *s, struct thread *t)
{
    if (t->has_timer)
        timer_delete((timer_t)t->timer);
    if (t->has_cpu_timer)
        timer_delete((timer_t)t->cpu_timer);
    t->has_timer = 0;
    t->has_cpu_timer = false;
    close_event(s, t->fd, t->event_id);
    t->fd = -1;
}

void engine_retire(struct session *s, struct thread *t)
{
    if (s->engine == ENGINE_SIGTRAP && t->fd >= 0 && s->kept.n < SIGTRAP_KEPT_MAX) {
        s->kept.event[s->kept.n++] = (struct sigtrap_event){t->fd, t->event_id};
        t->fd = -1;
    }
    engine_close(s, t);
}

void engine_close_all(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        engine_close(s, t);
    for (int i = 0; i < s->kept.n; i++)
        close_event(s, s->kept.event[i].fd, s->kept.event[i].id);
    s->kept.n = 0;
}

void engine_abandon(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        if (perf_event_is(t->fd, t->event_id))
            close(t->fd);
    for (int i = 0; i < s->kept.n; i++)
        if (perf_event_is(s->kept.event[i].fd, s->kept.event[i].id))
            close(s->kept.event[i].fd);
}

/* Events that were inherited meanwhile keep theirs: their samples' weights are right all the same. */
int engine_set_period(struct session *s, struct thread *t)
{
    uint64_t period = atomic_load(&s->period_ns);
    if (t->has_timer)
        return arm(t->timer, period);
    return perf_event_is(t->fd, t->event_id) && ioctl(t->fd, PERF_EVENT_IOC_PERIOD, &period)
               ? -errno
               : 0;
}

/* Also those that were inherited from it. */
static void enable_event(int fd, uint64_t id, bool enable)
{
    if (perf_event_is(fd, id))
        ioctl(fd, enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void engine_enable_all(struct session *s, bool enable)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        if (t->has_cpu_timer && !enable)
            arm(t->cpu_timer, 0);
        if (t->has_timer)
            arm(t->timer, enable ? atomic_load(&s->period_ns) : 0);
        else
            enable_event(t->fd, t->event_id, enable);
    }
    for (int i = 0; i < s->kept.n; i++)
        enable_event(s->kept.event[i].fd, s->kept.event[i].id, enable);
}

uint64_t engine_cpu_ns(struct thread *t)
{
    /* Not the event's count while the clock can be had: it includes time stolen from the thread. */
    uint64_t ns = clock_read_ns(clock_of_thread(t->tid)), counted = 0;
    uint64_t sampled = atomic_load_explicit(&t->counters.cpu_ns, memory_order_relaxed);
    if (ns && ns >= t->base_cpu_ns && ns >= sampled)
        return t->last_cpu_ns = ns;
    if (sampled || t->last_cpu_ns)
        return sampled > t->last_cpu_ns ? sampled : t->last_cpu_ns;
    if (perf_event_is(t->fd, t->event_id) &&
        read(t->fd, &counted, sizeof counted) == sizeof counted)
        return t->base_cpu_ns + counted;
    return t->base_cpu_ns;
}
