/* The floor under every profiler with this clock: a task-clock event per thread whose signal runs a
 * handler that does nothing; or that brings no signal, so that the kernel's interrupts alone are left.
 * Between `begin` and `end`; or LD_PRELOAD it, PERIOD_NS in the environment is the period of SIGPROF
 * then, until the program ends.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PID (1 << 22)
#define TICK_US 10000
#define IN_FLIGHT_US 20000 /* what a signal needs at most from its event to its handler */

static int event_of[MAX_PID]; /* its descriptor, if it is watched */
static unsigned long period;
static enum floor { BY_SIGPROF, BY_SIGTRAP, NO_SIGNAL } kind;
static atomic_bool ends;
static pthread_t watcher;
static struct sigaction before;

static void do_nothing(int signal)
{
    (void)signal;
}

static void watch(pid_t tid)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = period,
                                   .disabled = 1,
                                   .exclude_hv = 1,
                                   .wakeup_events = 1};
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    if (kind != BY_SIGPROF)
        attr.remove_on_exec = attr.inherit = attr.inherit_thread = 1;
    attr.sigtrap = kind == BY_SIGTRAP;
    int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == ESRCH)
        return;
    bool is_set =
        kind != BY_SIGPROF || (!fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) &&
                               !fcntl(fd, F_SETSIG, SIGPROF) && !fcntl(fd, F_SETOWN_EX, &owner));
    if (fd < 0 || !is_set || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
        abort();
    event_of[tid] = fd;
}

static void watch_new(pid_t self)
{
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        pid_t tid = atoi(task->d_name);
        if (tid > 0 && tid < MAX_PID && tid != self && !event_of[tid])
            watch(tid);
    }
    if (tasks)
        closedir(tasks);
}

static void *watch_all(void *unused)
{
    for (; !ends; usleep(TICK_US))
        watch_new((pid_t)syscall(SYS_gettid));
    return unused;
}

/* Every thread that there is, and those to come: which inherit the event but for BY_SIGPROF. */
void begin(unsigned long period_ns, enum floor which)
{
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    period = period_ns;
    kind = which;
    ends = false;
    sigaction(kind == BY_SIGPROF ? SIGPROF : SIGTRAP, &action, &before);
    watch_new(-1);
    if (kind == BY_SIGPROF)
        pthread_create(&watcher, NULL, watch_all, NULL);
}

void end(void)
{
    ends = true;
    if (kind == BY_SIGPROF)
        pthread_join(watcher, NULL);
    for (pid_t tid = 0; tid < MAX_PID; tid++)
        if (event_of[tid]) {
            ioctl(event_of[tid], PERF_EVENT_IOC_DISABLE, 0);
            close(event_of[tid]);
        }
    memset(event_of, 0, sizeof event_of);
    usleep(IN_FLIGHT_US);
    sigaction(kind == BY_SIGPROF ? SIGPROF : SIGTRAP, &before, NULL);
}

__attribute__((constructor)) static void preloaded(void)
{
    const char *text = getenv("PERIOD_NS");
    if (!text)
        return;
    unsetenv("LD_PRELOAD");
    begin(strtoul(text, NULL, 10), BY_SIGPROF);
}
