#include "perf_event.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sigtrap.h"

int perf_event_open(const struct perf_event_wish *wish)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = wish->period_ns,
                                   .disabled = 1,
                                   .exclude_hv = 1,
                                   .exclude_kernel = wish->exclude_kernel,
                                   .wakeup_events = 1};
    if (wish->sigtrap) {
        attr.sigtrap = attr.remove_on_exec = attr.inherit = attr.inherit_thread = 1;
        attr.sig_data = SIGTRAP_DATA;
    }
    if (wish->samples) {
        attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN;
        attr.exclude_callchain_user = 1;
        attr.use_clockid = 1;
        attr.clockid = CLOCK_MONOTONIC;
        attr.watermark = 1; /* nobody waits for the ring */
        attr.wakeup_watermark = UINT32_MAX;
    }
    long fd = syscall(SYS_perf_event_open, &attr, wish->tid, wish->cpu, -1, PERF_FLAG_FD_CLOEXEC);
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
    uint64_t found;
    return fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_ID, &found) && found == id;
}
