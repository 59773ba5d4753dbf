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
#include "map.h"
#include "perf_event.h"
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

#define CPUS_NO_MATTER                                                                             \
    16 /* more events at each thread than this would be felt when threads begin */

/* Why there are no frames of the kernel; NULL: there are. */
static const char *kernel_frames_refused(const struct session *s, int wanted)
{
    if (wanted < 0)
        return "not wanted";
    if (s->engine != ENGINE_SIGTRAP && s->engine != ENGINE_PERF_EVENT)
        return "this clock does not know them";
    if (s->exclude_kernel)
        return "the kernel hides itself (kernel.perf_event_paranoid)";
    if (!wanted && s->engine == ENGINE_SIGTRAP && s->n_cpus > CPUS_NO_MATTER)
        return "an event for each processor of each thread";
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
    s->n_cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    info->no_kernel_frames = kernel_frames_refused(s, options->kernel_frames);
    s->kernel_frames = !info->no_kernel_frames;
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

static struct clock_event *ring_of_cpu(struct session *s, int cpu)
{
    for (int i = 0; i < s->n_events; i++)
        if (s->events[i].cpu == cpu && s->events[i].ring.pages)
            return &s->events[i];
    return NULL;
}

/* What 50 ms bring, until the collector comes: at 10 kHz 70 KiB of a processor.  Of threads there may be
 * many, and the kernel counts locked memory (kernel.perf_event_mlock_kb). */
#define RING_OF_CPU (128 * 1024)
#define RING_OF_THREAD (32 * 1024)

/* Events of one processor write into one ring. */
static void map_ring(struct session *s, struct clock_event *e)
{
    struct clock_event *first = e->cpu >= 0 ? ring_of_cpu(s, e->cpu) : NULL;
    if (first)
        ioctl(e->fd, PERF_EVENT_IOC_SET_OUTPUT, first->fd);
    else
        kernel_ring_map(&e->ring, e->fd, e->cpu >= 0 ? RING_OF_CPU : RING_OF_THREAD);
}

static int open_event(struct session *s, struct thread *t, int cpu, bool samples)
{
    struct perf_event_wish wish = {.tid = t->tid,
                                   .cpu = cpu,
                                   .period_ns = atomic_load(&s->period_ns),
                                   .sigtrap = s->engine == ENGINE_SIGTRAP,
                                   .exclude_kernel = s->exclude_kernel,
                                   .samples = samples};
    if (s->n_events >= s->fd_budget)
        return -EMFILE;
    if (!map_memory_grow(&s->events, &s->events_bytes, (size_t)s->n_events + 1, sizeof *s->events))
        return -ENOMEM;
    struct clock_event e = {.thread = t->index, .cpu = cpu};
    int low = perf_event_open(&wish);
    e.fd = low < 0 ? low : perf_event_settle(low, s->fd_floor, &e.id);
    if (e.fd < 0)
        return e.fd;
    int error = wish.sigtrap ? 0 : signal_thread(e.fd, t->tid);
    if (error) {
        close(e.fd);
        return error;
    }
    if (samples)
        map_ring(s, &e);
    s->events[s->n_events++] = e;
    t->has_event = true;
    bool runs = atomic_load(&s->state) == SESSION_RUNNING; /* else enabled when it goes on */
    return runs && ioctl(e.fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

/* An event that others inherit has a ring only if it stands for one processor. */
static int open_perf(struct session *s, struct thread *t)
{
    if (s->engine != ENGINE_SIGTRAP || !s->kernel_frames || s->n_events + s->n_cpus > s->fd_budget)
        return open_event(s, t, -1, s->engine != ENGINE_SIGTRAP && s->kernel_frames);
    int error = 0;
    for (int cpu = 0; cpu < s->n_cpus && !error; cpu++) {
        error = open_event(s, t, cpu, true);
        if (error == -ENODEV) /* it is not there now */
            error = 0;
    }
    return error;
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
static void close_event(struct clock_event *e)
{
    if (perf_event_is(e->fd, e->id)) {
        ioctl(e->fd, PERF_EVENT_IOC_DISABLE, 0);
        close(e->fd);
    }
    kernel_ring_unmap(&e->ring);
}

static void close_events(struct session *s, uint32_t thread)
{
    for (int i = s->n_events; i--;)
        if (s->events[i].thread == thread) {
            close_event(&s->events[i]);
            s->events[i] = s->events[--s->n_events];
        }
}

void engine_close(struct session *s, struct thread *t)
{
    if (t->has_timer)
        timer_delete((timer_t)t->timer);
    if (t->has_cpu_timer)
        timer_delete((timer_t)t->cpu_timer);
    t->has_timer = 0;
    t->has_cpu_timer = false;
    if (t->has_event)
        close_events(s, t->index);
    t->has_event = false;
}

void engine_retire(struct session *s, struct thread *t)
{
    int kept = 0;
    for (int i = 0; i < s->n_events; i++)
        kept += !s->events[i].thread;
    for (int i = 0; t->has_event && s->engine == ENGINE_SIGTRAP && i < s->n_events; i++)
        if (s->events[i].thread == t->index &&
            (s->events[i].ring.pages || kept++ < SIGTRAP_KEPT_MAX))
            s->events[i].thread = 0;
    engine_close(s, t);
}

void engine_close_all(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        engine_close(s, t);
    close_events(s, 0);
}

void engine_abandon(struct session *s)
{
    for (int i = 0; i < s->n_events; i++)
        if (perf_event_is(s->events[i].fd, s->events[i].id))
            close(s->events[i].fd);
}

/* Events that were inherited meanwhile keep theirs: their samples' weights are right all the same. */
void engine_set_period(struct session *s, struct thread *t)
{
    uint64_t period = atomic_load(&s->period_ns);
    if (t->has_timer)
        arm(t->timer, period);
    for (int i = 0; t->has_event && i < s->n_events; i++)
        if (s->events[i].thread == t->index && perf_event_is(s->events[i].fd, s->events[i].id))
            ioctl(s->events[i].fd, PERF_EVENT_IOC_PERIOD, &period);
}

/* Events: also those that were inherited from them. */
void engine_enable_all(struct session *s, bool enable)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        if (t->has_cpu_timer && !enable)
            arm(t->cpu_timer, 0);
        if (t->has_timer)
            arm(t->timer, enable ? atomic_load(&s->period_ns) : 0);
    }
    for (int i = 0; i < s->n_events; i++)
        if (perf_event_is(s->events[i].fd, s->events[i].id))
            ioctl(s->events[i].fd, enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* What its events counted. */
static uint64_t counted_ns(struct session *s, const struct thread *t)
{
    uint64_t sum = 0, counted;
    for (int i = 0; t->has_event && i < s->n_events; i++) {
        struct clock_event *e = &s->events[i];
        if (e->thread == t->index && perf_event_is(e->fd, e->id) &&
            read(e->fd, &counted, sizeof counted) == sizeof counted)
            sum += counted;
    }
    return sum;
}

uint64_t engine_cpu_ns(struct session *s, struct thread *t)
{
    /* Not the event's count while the clock can be had: it includes time stolen from the thread. */
    uint64_t ns = clock_read_ns(clock_of_thread(t->tid));
    uint64_t sampled = atomic_load_explicit(&t->counters.cpu_ns, memory_order_relaxed);
    if (ns && ns >= t->base_cpu_ns && ns >= sampled)
        return t->last_cpu_ns = ns;
    if (sampled || t->last_cpu_ns)
        return sampled > t->last_cpu_ns ? sampled : t->last_cpu_ns;
    return t->base_cpu_ns + counted_ns(s, t);
}
