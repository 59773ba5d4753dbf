/* usage.c - what a kept call's thread used meanwhile: CPU time, faults, context switches; and the process's resident
 * memory.
 *
 * getrusage has context switches as they are, but CPU time as of the kernel's last tick (1 to 10 ms), and the clock
 * that is exact costs twice as much.  So CPU time is that of the thread's clock once, plus the time since, as long as
 * there was no switch.
 *
 * Context: the thread itself, in its callbacks.
 *
 * Sources: getrusage(2), clock_gettime(2), proc_pid_statm(5); kernel/sched/core.c, __schedule (what counts as a switch)
 * and task_sched_runtime (the clock).
 */
#include "instrument.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "own_fd.h"

#define FD_FLOOR 256
#define CLOCK_NS                                                                                   \
    10000000 /* then the thread's clock is read again: interrupts' time is not its own */

static struct own_fd statm = {.fd = -1};
static uint64_t page_bytes;
static bool is_tried; /* to open it, since it was closed */

static void open_statm(void)
{
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    int floor = files.rlim_cur / 2 < FD_FLOOR ? (int)files.rlim_cur / 2 : FD_FLOOR;
    page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    own_fd_keep(&statm, open("/proc/self/statm", O_RDONLY | O_CLOEXEC), floor);
    is_tried = true;
}

void usage_start(struct exact *x, uint32_t kinds, uint32_t by_name)
{
    if ((kinds | by_name) & USAGE_MEMORY)
        open_statm();
    x->usage = (uint8_t)kinds;
    x->usage_by_name = by_name;
}

void usage_stop(void)
{
    own_fd_close(&statm);
    is_tried = false;
}

static uint64_t time_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_usec * 1000;
}

/* The second number in the file, of pages. */
static uint64_t resident_bytes(void)
{
    char text[64];
    ssize_t n = own_fd_is(&statm) ? pread(statm.fd, text, sizeof text, 0) : -1;
    ssize_t i = 0;
    uint64_t pages = 0;
    while (i < n && text[i] != ' ')
        i++;
    if (n <= 0 || ++i >= n || text[i] < '0' || text[i] > '9')
        return USAGE_UNKNOWN;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        pages = 10 * pages + (uint64_t)(text[i] - '0');
    return pages * page_bytes;
}

uint64_t usage_resident(void)
{
    if (!is_tried)
        open_statm();
    uint64_t bytes = resident_bytes();
    return bytes == USAGE_UNKNOWN ? 0 : bytes;
}

static uint64_t ns_of(clockid_t clock)
{
    uint64_t ns = clock_read_ns(clock);
    return ns ? ns : USAGE_UNKNOWN;
}

/* The calling thread's CPU time at `now_ns`, until when it had so many context switches. */
static uint64_t cpu_ns(struct cpu_clock *c, uint64_t now_ns, uint64_t switches)
{
    uint64_t ns = c->ns + (now_ns - c->at_ns);
    if (!c->at_ns || c->switches != switches || now_ns - c->at_ns > CLOCK_NS) {
        c->switches = switches; /* a switch between these lines is seen the next time */
        c->ns = ns = ns_of(CLOCK_THREAD_CPUTIME_ID);
        c->at_ns = clock_now_ns();
    }
    c->last_ns = ns > c->last_ns ? ns : c->last_ns;
    return c->last_ns;
}

static void take_cpu(struct exact_thread *t, struct usage_reading *r)
{
    uint64_t now_ns = clock_now_ns(); /* first: the switches have all that came before it */
    struct rusage used;
    if (getrusage(RUSAGE_THREAD, &used))
        return;
    r->voluntary = (uint32_t)used.ru_nvcsw;
    r->involuntary = (uint32_t)used.ru_nivcsw;
    r->cpu_ns = cpu_ns(&t->cpu_clock, now_ns, (uint64_t)(used.ru_nvcsw + used.ru_nivcsw));
    r->user_ns = time_ns(used.ru_utime);
    r->system_ns = time_ns(used.ru_stime);
    r->minor_faults = (uint32_t)used.ru_minflt;
    r->major_faults = (uint32_t)used.ru_majflt;
}

static void take(struct exact_thread *t, uint32_t kinds, struct usage_reading *r)
{
    *r = (struct usage_reading){.process_ns = USAGE_UNKNOWN, .resident_bytes = USAGE_UNKNOWN};
    if (kinds & USAGE_MEMORY)
        r->resident_bytes = resident_bytes();
    if (kinds & USAGE_PROCESS)
        r->process_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID);
    if (kinds & USAGE_CPU)
        take_cpu(t, r);
}

void usage_begin(struct exact_thread *t, struct exact_frame *s, uint32_t kinds)
{
    size_t place = (size_t)(s - t->stack);
    if (!kinds || !map_memory_grow(&t->usage, &t->usage_bytes, place + 1, sizeof *t->usage))
        return;
    s->flags |= (uint64_t)kinds << EXACT_USAGE_SHIFT;
    take(t, kinds, &t->usage[place]);
}

const struct call_usage *usage_end(struct exact_thread *t, const struct exact_frame *s,
                                   struct call_usage *of)
{
    uint32_t kinds = (s->flags & EXACT_USAGE) >> EXACT_USAGE_SHIFT;
    const struct usage_reading *then = &t->usage[s - t->stack];
    struct usage_reading now;
    take(t, kinds, &now);
    *of = (struct call_usage){.kinds = kinds,
                              .begin_ns = then->cpu_ns,
                              .cpu_ns = now.cpu_ns - then->cpu_ns,
                              .user_ns = now.user_ns - then->user_ns,
                              .system_ns = now.system_ns - then->system_ns,
                              .process_ns = now.process_ns - then->process_ns,
                              .resident_begin = then->resident_bytes,
                              .resident_end = now.resident_bytes,
                              .minor_faults = now.minor_faults - then->minor_faults,
                              .major_faults = now.major_faults - then->major_faults,
                              .voluntary = now.voluntary - then->voluntary,
                              .involuntary = now.involuntary - then->involuntary};
    return of;
}
