#include "trap_guard.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "session.h"
#include "map.h"

static volatile sig_atomic_t n_tried;

static void on_trial(int number)
{
    (void)number;
    n_tried++;
}

/* The C library's own, whatever stands before it.  Waits for the loader. */
static void find_call(void *unused)
{
    (void)unused;
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    previous_handler_watched_call = libc ? (uint64_t)dlsym(libc, "sigaction") : 0;
    if (libc)
        dlclose(libc);
}

static int open_guard(pid_t tid)
{
    struct perf_event_wish wish = {
        .tid = tid, .cpu = -1, .sigtrap = true, .call = previous_handler_watched_call};
    return perf_event_open(&wish);
}

static bool is_blocked(void)
{
    sigset_t now;
    return pthread_sigmask(SIG_BLOCK, NULL, &now) || sigismember(&now, SIGTRAP);
}

const char *trap_guard_refused(void)
{
    struct sigaction trial = {.sa_handler = on_trial}, before;
    session_block(find_call, NULL);
    int fd = previous_handler_watched_call ? open_guard(0) : -ENOENT;
    if (fd < 0)
        return "nothing would tell that the program takes SIGTRAP: no breakpoint is to be had";
    sigaction(SIGTRAP, &trial, &before);
    n_tried = 0;
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    sigaction(SIGTRAP, NULL, NULL);
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    close(fd);
    sigaction(SIGTRAP, &before, NULL);
    return n_tried || is_blocked()
               ? NULL
               : "nothing would tell that the program takes SIGTRAP: breakpoints do not work here";
}

int trap_guards_init(struct trap_guards *g, int max)
{
    g->of = map_memory((size_t)max * sizeof *g->of);
    g->max = g->of ? max : 0;
    return g->of ? 0 : -ENOMEM;
}

void trap_guards_free(struct trap_guards *g)
{
    map_memory_free(g->of, (size_t)g->max * sizeof *g->of);
}

int trap_guards_add(struct session *s, pid_t tid)
{
    struct trap_guards *g = &s->guards;
    struct trap_guard new;
    if (!g->of)
        return 0;
    if (g->n >= g->max)
        return -EMFILE;
    int low = open_guard(tid);
    new.fd = low < 0 ? low : perf_event_settle(low, s->fd_floor, &new.id);
    if (new.fd < 0)
        return new.fd;
    if (ioctl(new.fd, PERF_EVENT_IOC_ENABLE, 0)) {
        int error = -errno;
        close(new.fd);
        return error;
    }
    g->of[g->n++] = new;
    return 0;
}

void trap_guards_close(struct trap_guards *g)
{
    for (int i = 0; i < g->n; i++)
        if (perf_event_is(g->of[i].fd, g->of[i].id)) {
            ioctl(g->of[i].fd, PERF_EVENT_IOC_DISABLE, 0); /* as in perf_clocks.c */
            close(g->of[i].fd);
        }
    g->n = 0;
}

void trap_guards_abandon(struct trap_guards *g)
{
    for (int i = 0; i < g->n; i++)
        if (perf_event_is(g->of[i].fd, g->of[i].id))
            close(g->of[i].fd);
}
