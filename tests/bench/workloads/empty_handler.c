/* The floor under every profiler with this clock: a task-clock event per thread whose SIGPROF runs
 * a handler that does nothing.  LD_PRELOAD it; PERIOD_NS in the environment is the period.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PID (1 << 22)
#define TICK_US 10000

static bool seen[MAX_PID];
static long period_ns;

static void do_nothing(int signal)
{
    (void)signal;
}

static void watch(pid_t tid)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = (unsigned long)period_ns,
                                   .disabled = 1,
                                   .exclude_hv = 1,
                                   .wakeup_events = 1};
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) || fcntl(fd, F_SETSIG, SIGPROF) ||
        fcntl(fd, F_SETOWN_EX, &owner) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
        abort();
}

static void *watch_all(void *unused)
{
    pid_t self = (pid_t)syscall(SYS_gettid);
    for (;; usleep(TICK_US)) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *task; tasks && (task = readdir(tasks));) {
            pid_t tid = atoi(task->d_name);
            if (tid <= 0 || tid >= MAX_PID || tid == self || seen[tid])
                continue;
            seen[tid] = true;
            watch(tid);
        }
        if (tasks)
            closedir(tasks);
    }
    return unused;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("PERIOD_NS");
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    pthread_t thread;
    unsetenv("LD_PRELOAD");
    if (!text)
        return;
    period_ns = atol(text);
    sigaction(SIGPROF, &action, NULL);
    pthread_create(&thread, NULL, watch_all, NULL);
}
