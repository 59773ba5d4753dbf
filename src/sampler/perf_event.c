#include "perf_event.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sigtrap.h"

static int open_event(pid_t tid, struct perf_event_attr *attr, uint64_t period_ns)
{
    attr->type = PERF_TYPE_SOFTWARE;
    attr->size = sizeof *attr;
    attr->config = PERF_COUNT_SW_TASK_CLOCK;
    attr->sample_period = period_ns;
    attr->disabled = 1;
    attr->exclude_hv = 1;
    attr->wakeup_events = 1;
    long fd = syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

int perf_event_open_sigprof(pid_t tid, uint64_t period_ns, bool exclude_kernel)
{
    struct perf_event_attr attr = {.exclude_kernel = exclude_kernel};
    return open_event(tid, &attr, period_ns);
}

int perf_event_open_sigtrap(pid_t tid, uint64_t period_ns)
{
    struct perf_event_attr attr = {.sigtrap = 1,
                                   .remove_on_exec = 1,
                                   .inherit = 1,
                                   .inherit_thread = 1,
                                   .sig_data = SIGTRAP_DATA};
    return open_event(tid, &attr, period_ns);
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
