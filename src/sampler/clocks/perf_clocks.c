#include "perf_clocks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock_ops.h"
#include "map.h"
#include "period_correction.h"
#include "session.h"

/* What 50 ms bring, until the collector comes: up to 100 bytes a tick.  Of threads there may be many,
 * and the kernel counts locked memory (kernel.perf_event_mlock_kb). */
#define RING_OF_CPU (128 * 1024)
#define RING_OF_THREAD (32 * 1024)
#define SOUGHT_AT_ONCE 16
#define FAST_NS 250000 /* shorter periods need more */
#define OF_NO_CPU (-2) /* of an event that is no clock */

int perf_clocks_init(struct perf_clocks *p, int max)
{
    p->of = map_memory((size_t)max * sizeof *p->of);
    p->max = p->of ? max : 0;
    p->n_cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    return p->of ? 0 : -ENOMEM;
}

void perf_clocks_free(struct perf_clocks *p)
{
    map_memory_free(p->of, (size_t)p->max * sizeof *p->of);
}

static bool is_open(const struct perf_clock *c)
{
    return perf_event_is(c->fd, c->id);
}

/* Disabled first: a child that is being spawned holds the descriptor, too, until it execs. */
static void close_one(struct perf_clock *c)
{
    if (is_open(c)) {
        ioctl(c->fd, PERF_EVENT_IOC_DISABLE, 0);
        close(c->fd);
    }
    kernel_ring_unmap(&c->ring);
}

static struct perf_clock *ring_of_cpu(struct perf_clocks *p, int cpu)
{
    for (int i = 0; i < p->n; i++)
        if (p->of[i].cpu == cpu && p->of[i].ring.pages)
            return &p->of[i];
    return NULL;
}

/* Returns whether the event has a ring, its own or that of its processor. */
static bool give_ring(struct perf_clocks *p, struct perf_clock *c, uint64_t period_ns)
{
    struct perf_clock *first = c->cpu >= 0 ? ring_of_cpu(p, c->cpu) : NULL;
    if (first)
        return is_open(first) && !ioctl(c->fd, PERF_EVENT_IOC_SET_OUTPUT, first->fd);
    bool large = c->cpu >= 0 || period_ns < FAST_NS;
    kernel_ring_map(&c->ring, c->fd, large ? RING_OF_CPU : RING_OF_THREAD);
    return c->ring.pages != NULL;
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

static int open_one(struct session *s, struct thread *t, int cpu, bool with_ring)
{
    struct perf_clocks *p = &s->perf;
    struct perf_event_wish wish = {.tid = t->tid,
                                   .cpu = cpu,
                                   .period_ns = atomic_load(&s->period_ns),
                                   .sigtrap = session_clock(s)->is_inherited,
                                   .exclude_kernel = s->exclude_kernel,
                                   .samples = with_ring};
    if (p->n >= p->max)
        return -EMFILE;
    struct perf_clock c = {.thread = t->index, .cpu = cpu};
    int low = perf_event_open(&wish);
    if (low == -EACCES && !wish.exclude_kernel) { /* privileges were given up */
        wish.exclude_kernel = true;
        wish.samples = with_ring = false;
        low = perf_event_open(&wish);
    }
    c.fd = low < 0 ? low : perf_event_settle(low, s->fd_floor, &c.id);
    if (c.fd < 0)
        return c.fd;
    bool has_ring = with_ring && give_ring(p, &c, s->asked_period_ns);
    int error = wish.sigtrap ? 0 : signal_thread(c.fd, t->tid);
    bool runs = atomic_load(&s->state) == SESSION_RUNNING; /* else enabled when it goes on */
    if (!error && runs && ioctl(c.fd, PERF_EVENT_IOC_ENABLE, 0))
        error = -errno;
    if (error) {
        close_one(&c);
        return error;
    }
    p->n_mute += p->kernel_frames && !has_ring;
    p->of[p->n++] = c;
    t->has_event = true;
    return 0;
}

/* One for each processor, whose numbers may have holes. */
static int open_on_all(struct session *s, struct thread *t)
{
    int error = 0;
    for (int cpu = 0; cpu < s->perf.n_cpus; cpu++) {
        error = open_one(s, t, cpu, true);
        if (error && error != -ENODEV && error != -EINVAL)
            break;
        error = 0;
    }
    if (!error && t->has_event)
        return 0;
    perf_clocks_close(s, t);
    return error ? error : -ENODEV;
}

int perf_clocks_open(struct session *s, struct thread *t)
{
    struct perf_clocks *p = &s->perf;
    if (!p->kernel_frames || !session_clock(s)->is_inherited)
        return open_one(s, t, -1, p->kernel_frames);
    /* Half of them is for threads that come after; and each that is there needs one. */
    p->n_expected -= p->n_expected > 0;
    int n = p->n + p->n_cpus;
    int error = n <= p->max / 2 && n + p->n_expected <= p->max ? open_on_all(s, t) : -EMFILE;
    return error && error != -ESRCH ? open_one(s, t, -1, false) : error;
}

static void close_of(struct perf_clocks *p, uint32_t thread)
{
    for (int i = p->n; i--;)
        if (p->of[i].thread == thread) {
            close_one(&p->of[i]);
            p->of[i] = p->of[--p->n];
        }
}

void perf_clocks_close(struct session *s, struct thread *t)
{
    if (t->has_event || t->is_apart)
        close_of(&s->perf, t->index);
    t->has_event = t->is_apart = false;
}

void perf_clocks_keep_apart(struct session *s, struct thread *t)
{
    struct perf_clocks *p = &s->perf;
    if (!t->seen || t->is_apart || p->n >= p->max / 2)
        return;
    struct perf_clock c = {.thread = t->index, .cpu = OF_NO_CPU};
    int low = perf_event_open(&(struct perf_event_wish){.tid = t->tid, .cpu = -1, .apart = true});
    c.fd = low < 0 ? low : perf_event_settle(low, s->fd_floor, &c.id);
    t->is_apart = c.fd >= 0;
    if (t->is_apart)
        p->of[p->n++] = c;
}

static bool owns_ring(const struct perf_clocks *p, uint32_t thread)
{
    for (int i = 0; i < p->n; i++)
        if (p->of[i].thread == thread && p->of[i].ring.pages)
            return true;
    return false;
}

void perf_clocks_keep(struct session *s, struct thread *t)
{
    struct perf_clocks *p = &s->perf;
    if (!t->has_event || (p->n_kept >= SIGTRAP_KEPT_MAX && !owns_ring(p, t->index)))
        return;
    for (int i = 0; i < p->n; i++)
        if (p->of[i].thread == t->index)
            p->of[i].thread = 0;
    p->n_kept++;
    t->has_event = false;
}

void perf_clocks_close_kept(struct session *s)
{
    close_of(&s->perf, 0);
    s->perf.n_kept = 0;
}

void perf_clocks_abandon(struct session *s)
{
    for (int i = 0; i < s->perf.n; i++)
        if (is_open(&s->perf.of[i]))
            close(s->perf.of[i].fd);
}

/* Events that were inherited meanwhile keep theirs: their samples' weights are right all the same. */
void perf_clocks_set_period(struct session *s, struct thread *t)
{
    uint64_t period = period_correction_apply(&t->correction, atomic_load(&s->period_ns));
    struct perf_clocks *p = &s->perf;
    for (int i = 0; t->has_event && i < p->n; i++)
        if (p->of[i].thread == t->index && is_open(&p->of[i]))
            ioctl(p->of[i].fd, PERF_EVENT_IOC_PERIOD, &period);
}

static bool has_any(const struct perf_clocks *p, uint32_t thread)
{
    for (int i = 0; i < p->n; i++)
        if (p->of[i].thread == thread && p->of[i].cpu != OF_NO_CPU)
            return true;
    return false;
}

/* Their threads may get new ones (thread_cover). */
static void drop_closed(struct session *s)
{
    struct perf_clocks *p = &s->perf;
    int before = p->n;
    for (int i = p->n; i--;)
        if (!is_open(&p->of[i])) {
            kernel_ring_unmap(&p->of[i].ring);
            p->of[i] = p->of[--p->n];
        }
    uint32_t at = 0;
    for (struct thread *t; p->n < before && (t = registry_next(&s->registry, &at));)
        t->has_event = t->has_event && has_any(p, t->index);
}

void perf_clocks_seek_closed(struct session *s)
{
    struct perf_clocks *p = &s->perf;
    for (int i = 0, looks = 0; i < p->n && looks < SOUGHT_AT_ONCE; i++, p->next_sought++) {
        if (p->next_sought >= p->n)
            p->next_sought = 0;
        looks++;
        if (!is_open(&p->of[p->next_sought])) {
            drop_closed(s);
            return;
        }
    }
}

/* Also those that were inherited from them. */
void perf_clocks_enable(struct session *s, bool enable)
{
    struct perf_clocks *p = &s->perf;
    drop_closed(s);
    for (int i = 0; i < p->n; i++)
        if (is_open(&p->of[i]))
            ioctl(p->of[i].fd, enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

uint64_t perf_clocks_counted_ns(struct session *s, const struct thread *t)
{
    const struct perf_clocks *p = &s->perf;
    uint64_t sum = 0, counted;
    for (int i = 0; t->has_event && i < p->n; i++)
        if (p->of[i].thread == t->index && is_open(&p->of[i]) &&
            read(p->of[i].fd, &counted, sizeof counted) == sizeof counted)
            sum += counted;
    return sum;
}

bool perf_clocks_read(struct session *s, kernel_ring_take take, void *arg)
{
    struct perf_clocks *p = &s->perf;
    bool any = false;
    for (int i = 0; i < p->n; i++) {
        any |= p->of[i].ring.pages != NULL;
        p->kernel_lost += kernel_ring_read(&p->of[i].ring, take, arg);
    }
    return any;
}

/* Of threads for which descriptors are too few some have timers. */
static int open_event_or_timer(struct session *s, struct thread *t)
{
    int error = perf_clocks_open(s, t);
    if (!error && s->exclude_kernel && timers_open_for_kernel(s, t)) {
        perf_clocks_close(s, t);
        error = -EMFILE; /* a timer alone sees everything */
    }
    if (error != -EMFILE)
        return error;
    s->perf.n_mute += s->perf.kernel_frames;
    return timers_open(s, t);
}

static void close_event_or_timer(struct session *s, struct thread *t)
{
    timers_close(s, t);
    perf_clocks_close(s, t);
}

static void set_period_of_either(struct session *s, struct thread *t)
{
    timers_set_period(s, t);
    perf_clocks_set_period(s, t);
}

static void enable_all_of_both(struct session *s, bool enable)
{
    timers_enable_all(s, enable);
    perf_clocks_enable(s, enable);
}

const struct clock_ops clock_perf_event = {.engine = ENGINE_PERF_EVENT,
                                           .signal = SIGPROF,
                                           .instead = &clock_timer_spare,
                                           .must_leave = timers_must_leave,
                                           .by_descriptor = true,
                                           .corrects_period = true,
                                           .knows_kernel = true,
                                           .open = open_event_or_timer,
                                           .close = close_event_or_timer,
                                           .retire = close_event_or_timer,
                                           .set_period = set_period_of_either,
                                           .enable_all = enable_all_of_both};
