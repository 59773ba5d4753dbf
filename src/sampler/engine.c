/* The clocks: which there are here, and one for each thread.
 *
 * perf_event: a task-clock software event per thread (man 2 perf_event_open); every overflow sends
 * SIGPROF to the thread that it counts (F_SETSIG, F_SETOWN_EX).  Fair, at any rate, but refused by
 * many containers, and unprivileged users' events do not see time in the kernel.
 * Timers: timer_create on the thread's CPU clock (or CLOCK_MONOTONIC) with SIGEV_THREAD_ID; bound to
 * the kernel's tick, so a sample stands for 1 + overrun periods.
 *
 * Context: the collector thread and sampler_start.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static int open_event(pid_t tid, uint64_t period_ns, bool exclude_kernel)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = period_ns,
                                   .disabled = 1,
                                   .exclude_kernel = exclude_kernel,
                                   .exclude_hv = 1,
                                   .wakeup_events = 1};
    long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

int engine_probe(struct sampler_options *options, struct sampler_info *info)
{
    info->engine_reason = "";
    if (options->engine == ENGINE_NONE) {
        info->engine = ENGINE_NONE;
        return 0;
    }
    if (options->clock == CLOCK_WALL) {
        info->engine = ENGINE_MONOTONIC;
        return 0;
    }
    if (options->engine == ENGINE_TIMER) {
        info->engine = ENGINE_TIMER;
        info->engine_reason = "asked for";
        return 0;
    }
    int fd = open_event(0, options->period_ns, false);
    if (fd >= 0) {
        close(fd);
        info->engine = ENGINE_PERF_EVENT;
        return 0;
    }
    int error = fd;
    fd = open_event(0, options->period_ns, true);
    if (fd >= 0) {
        close(fd);
        info->engine_reason = "perf_event would not see time in the kernel "
                              "(kernel.perf_event_paranoid)";
    } else {
        info->engine_reason = error == -EACCES || error == -EPERM
                                  ? "perf_event_open is not permitted"
                                  : "perf_event_open does not work here";
    }
    if (options->engine == ENGINE_PERF_EVENT && fd < 0)
        return error;
    info->engine = options->engine == ENGINE_PERF_EVENT ? ENGINE_PERF_EVENT : ENGINE_TIMER;
    return 0;
}

static int open_perf(struct session *s, struct thread *t)
{
    if (s->n_fds >= s->fd_budget)
        return -EMFILE;
    int low = open_event(t->tid, atomic_load(&s->period_ns), s->exclude_kernel);
    if (low < 0)
        return low;
    int fd = fcntl(low, F_DUPFD_CLOEXEC, s->fd_floor);
    int error = fd < 0 ? -errno : 0;
    close(low);
    if (error)
        return error;
    struct f_owner_ex owner = {F_OWNER_TID, t->tid};
    if (fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) || fcntl(fd, F_SETSIG, SIGPROF) ||
        fcntl(fd, F_SETOWN_EX, &owner) || ioctl(fd, PERF_EVENT_IOC_ID, &t->event_id)) {
        error = -errno;
        close(fd);
        return error;
    }
    t->fd = fd;
    s->n_fds++;
    return ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

/* The program may have closed our descriptor and use the number itself. */
static bool still_our_event(const struct thread *t)
{
    uint64_t id;
    return t->fd >= 0 && !ioctl(t->fd, PERF_EVENT_IOC_ID, &id) && id == t->event_id;
}

static int arm(struct thread *t, uint64_t period_ns)
{
    struct timespec period = {(time_t)(period_ns / 1000000000), (long)(period_ns % 1000000000)};
    struct itimerspec spec = {period, period};
    return timer_settime((timer_t)t->timer, 0, &spec, NULL) ? -errno : 0;
}

static int open_timer(struct session *s, struct thread *t)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_ptr = s;
    event.sigev_notify_thread_id = t->tid;
    clockid_t clock = s->clock == CLOCK_WALL ? CLOCK_MONOTONIC : clock_of_thread(t->tid);
    timer_t timer;
    if (timer_create(clock, &event, &timer))
        return -errno;
    t->timer = timer;
    t->has_timer = 1;
    return arm(t, atomic_load(&s->period_ns));
}

int engine_open(struct session *s, struct thread *t)
{
    if (s->engine == ENGINE_NONE)
        return 0;
    return s->engine == ENGINE_PERF_EVENT ? open_perf(s, t) : open_timer(s, t);
}

void engine_close(struct session *s, struct thread *t)
{
    if (t->has_timer)
        timer_delete((timer_t)t->timer);
    t->has_timer = 0;
    if (still_our_event(t))
        close(t->fd);
    if (t->fd >= 0)
        s->n_fds--;
    t->fd = -1;
}

int engine_set_period(struct session *s, struct thread *t)
{
    uint64_t period = atomic_load(&s->period_ns);
    if (t->has_timer)
        return arm(t, period);
    return still_our_event(t) && ioctl(t->fd, PERF_EVENT_IOC_PERIOD, &period) ? -errno : 0;
}

void engine_enable(struct session *s, struct thread *t, bool enable)
{
    if (t->has_timer)
        arm(t, enable ? atomic_load(&s->period_ns) : 0);
    else if (still_our_event(t))
        ioctl(t->fd, enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

uint64_t engine_cpu_ns(struct thread *t)
{
    /* Not the event's count while the clock can be had: it includes time stolen from the thread. */
    uint64_t ns = clock_read_ns(clock_of_thread(t->tid)), counted = 0;
    uint64_t sampled = atomic_load_explicit(&t->counters.cpu_ns, memory_order_relaxed);
    if (ns >= t->base_cpu_ns && ns >= sampled)
        return t->last_cpu_ns = ns;
    if (sampled || t->last_cpu_ns)
        return sampled > t->last_cpu_ns ? sampled : t->last_cpu_ns;
    if (still_our_event(t) && read(t->fd, &counted, sizeof counted) == sizeof counted)
        return t->base_cpu_ns + counted;
    return t->base_cpu_ns;
}
