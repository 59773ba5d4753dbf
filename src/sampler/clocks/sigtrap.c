#include "sigtrap.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "clock_ops.h"
#include "own_fd.h"
#include "session.h"

static bool kernel_is(int major, int minor)
{
    struct utsname system;
    int have_major, have_minor;
    return !uname(&system) && sscanf(system.release, "%d.%d", &have_major, &have_minor) == 2 &&
           (have_major > major || (have_major == major && have_minor >= minor));
}

bool sigtrap_watched(const struct own_fd *status)
{
    char text[2048];
    ssize_t n = own_fd_is(status) ? pread(status->fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = 0;
    const char *tracer = strstr(text, "\nTracerPid:");
    return tracer && atoi(tracer + strlen("\nTracerPid:")) != 0;
}

const char *sigtrap_refused(uint64_t period_ns)
{
    if (!kernel_is(6, 15))
        return "sigtrap needs Linux 6.15";
    if (!signal_is_free(SIGTRAP))
        return "the program handles SIGTRAP";
    struct own_fd status;
    bool watched = !own_fd_keep(&status, open("/proc/self/status", O_RDONLY | O_CLOEXEC), 0) &&
                   sigtrap_watched(&status);
    own_fd_close(&status);
    if (watched)
        return "a debugger would stop at every SIGTRAP";
    int fd = perf_event_open(
        &(struct perf_event_wish){.cpu = -1, .period_ns = period_ns, .sigtrap = true});
    if (fd < 0)
        return "the kernel refuses sigtrap";
    close(fd);
    return NULL;
}

bool sigtrap_others_live(int ours)
{
    int self = (int)syscall(SYS_gettid), n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *d; tasks && (d = readdir(tasks));)
        n += atoi(d->d_name) && atoi(d->d_name) != self && atoi(d->d_name) != ours;
    if (tasks)
        closedir(tasks);
    return !tasks || n;
}

static int open_with_guard(struct session *s, struct thread *t)
{
    int error = trap_guards_add(s, t->tid);
    s->guard_failed |= error && error != -ESRCH;
    return perf_clocks_open(s, t);
}

static void keep_or_close(struct session *s, struct thread *t)
{
    perf_clocks_keep(s, t);
    perf_clocks_close(s, t);
}

static const char *must_leave(struct session *s, bool thorough)
{
    if (!signal_is_taken(SIGTRAP) || atomic_load(&s->trap_wanted))
        return "the program handles SIGTRAP";
    if (s->guard_failed)
        return "for want of a breakpoint nothing would tell that the program takes SIGTRAP";
    return thorough && sigtrap_watched(&s->status) ? "a debugger watches" : NULL;
}

const struct clock_ops clock_sigtrap = {.engine = ENGINE_SIGTRAP,
                                        .signal = SIGTRAP,
                                        .is_inherited = true,
                                        .knows_kernel = true,
                                        .instead = &clock_perf_event,
                                        .open = open_with_guard,
                                        .close = perf_clocks_close,
                                        .retire = keep_or_close,
                                        .set_period = perf_clocks_set_period,
                                        .enable_all = perf_clocks_enable,
                                        .must_leave = must_leave};
