/* perf_event.c - task-clock events, and breakpoints, of one thread (man 2 perf_event_open).
 *
 * Context: any thread; not async-signal-safe.
 */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sigtrap.h"

/* Headers before Linux 5.18 lack what this needs, kernels may have it: bits in the word of `disabled`,
 * and the word sig_data.  Source: include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER7. */
enum { FLAGS_WORD = 5, SIG_DATA_WORD = 15, ATTR_WORDS = 16 };
#define INHERIT_THREAD (1ull << 35)
#define REMOVE_ON_EXEC (1ull << 36)
#define SIGTRAP_SENT (1ull << 37)

union event_attr {
    struct perf_event_attr known;
    uint64_t words[ATTR_WORDS];
};

int perf_event_open(const struct perf_event_wish *wish)
{
    union event_attr all;
    struct perf_event_attr *attr = &all.known;
    memset(&all, 0, sizeof all);
    *attr = (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
                                     .size = ATTR_WORDS * sizeof *all.words,
                                     .config = PERF_COUNT_SW_TASK_CLOCK,
                                     .sample_period = wish->period_ns,
                                     .disabled = 1,
                                     .exclude_hv = 1,
                                     .exclude_kernel = wish->exclude_kernel,
                                     .wakeup_events = 1};
    if (wish->call) {
        attr->type = PERF_TYPE_BREAKPOINT;
        attr->config = 0;
        attr->bp_type = HW_BREAKPOINT_X;
        attr->bp_addr = wish->call;
        attr->bp_len = sizeof(long); /* of one that is executed: man 2 perf_event_open */
        attr->sample_period = 1;
        attr->exclude_kernel = 1;
    }
    if (wish->apart) {
        attr->config = PERF_COUNT_SW_DUMMY;
        attr->sample_period = 0;
        attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_READ;
        attr->inherit = 1;
        attr->exclude_kernel = 1;
        all.words[FLAGS_WORD] |= INHERIT_THREAD | REMOVE_ON_EXEC;
    }
    if (wish->sigtrap) {
        attr->inherit = 1;
        all.words[FLAGS_WORD] |= INHERIT_THREAD | REMOVE_ON_EXEC | SIGTRAP_SENT;
        all.words[SIG_DATA_WORD] = wish->call ? SIGTRAP_CALL_DATA : SIGTRAP_DATA;
    }
    if (wish->samples) {
        attr->sample_type =
            PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN;
        attr->exclude_callchain_user = 1;
        attr->use_clockid = 1;
        attr->clockid = CLOCK_MONOTONIC;
        attr->watermark = 1; /* nobody waits for the ring */
        attr->wakeup_watermark = UINT32_MAX;
    }
    long fd = syscall(SYS_perf_event_open, &all, wish->tid, wish->cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

int perf_event_settle(int low, int floor, uint64_t *id)
{
    int fd = fcntl(low, F_DUPFD_CLOEXEC, floor);
    int error = fd < 0 ? -errno : 0;
    close(low);
    if (error)
        return error;
    if (ioctl(fd, PERF_EVENT_IOC_ID, id)) {
        error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

bool perf_event_is(int fd, uint64_t id)
{
    static const char what[] = "anon_inode:[perf_event]";
    uint64_t found;
    char path[40], link[sizeof what];
    if (fd < 0)
        return false;
    if (!ioctl(fd, PERF_EVENT_IOC_ID, &found))
        return found == id;
    if (errno == EBADF || errno == ENOTTY || errno == EINVAL)
        return false;
    /* A filter of the program's refuses the call (seccomp).  An event that stayed would send signals that nobody handles. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, link, sizeof link) == sizeof what - 1 &&
           !memcmp(link, what, sizeof what - 1);
}
