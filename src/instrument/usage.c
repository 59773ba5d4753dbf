/* Sources: getrusage(2), proc_pid_statm(5). */
#include "usage.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "own_fd.h"

#define FD_FLOOR 256

static struct own_fd statm = {.fd = -1};
static uint64_t page_bytes;

void usage_start(struct exact *x, uint32_t kinds)
{
    if (kinds & USAGE_MEMORY) {
        struct rlimit files = {0};
        getrlimit(RLIMIT_NOFILE, &files);
        int floor = files.rlim_cur / 2 < FD_FLOOR ? (int)files.rlim_cur / 2 : FD_FLOOR;
        page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        if (own_fd_keep(&statm, open("/proc/self/statm", O_RDONLY | O_CLOEXEC), floor))
            kinds &= ~(uint32_t)USAGE_MEMORY;
    }
    x->usage = (uint8_t)kinds;
}

void usage_stop(void)
{
    own_fd_close(&statm);
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

static void take(const struct exact *x, struct usage_reading *r)
{
    *r = (struct usage_reading){.process_ns = USAGE_UNKNOWN, .resident_bytes = USAGE_UNKNOWN};
    if (x->usage & USAGE_MEMORY)
        r->resident_bytes = resident_bytes();
    struct timespec process;
    if (x->usage & USAGE_PROCESS && !clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &process))
        r->process_ns = (uint64_t)process.tv_sec * 1000000000 + (uint64_t)process.tv_nsec;
    struct rusage used;
    if (x->usage & USAGE_CPU && !getrusage(RUSAGE_THREAD, &used)) {
        r->user_ns = time_ns(used.ru_utime);
        r->system_ns = time_ns(used.ru_stime);
        r->minor_faults = (uint32_t)used.ru_minflt;
        r->major_faults = (uint32_t)used.ru_majflt;
        r->voluntary = (uint32_t)used.ru_nvcsw;
        r->involuntary = (uint32_t)used.ru_nivcsw;
    }
}

void usage_begin(const struct exact *x, struct exact_thread *t, const struct exact_frame *s)
{
    size_t place = (size_t)(s - t->stack);
    if (map_memory_grow(&t->usage, &t->usage_bytes, place + 1, sizeof *t->usage))
        take(x, &t->usage[place]);
}

const struct call_usage *usage_end(const struct exact *x, const struct exact_thread *t,
                                   const struct exact_frame *s, struct call_usage *of)
{
    size_t place = (size_t)(s - t->stack);
    struct usage_reading now;
    if (place >= t->usage_bytes / sizeof *t->usage)
        return NULL;
    const struct usage_reading *then = &t->usage[place];
    take(x, &now);
    *of = (struct call_usage){.kinds = x->usage,
                              .begin_ns = then->user_ns + then->system_ns,
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
