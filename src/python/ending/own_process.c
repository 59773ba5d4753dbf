/* own_process.c - starts the processes that work for us: a child, or one that is no child of this process, so that its
 * wait() does not see it.
 *
 * In C, for the program may have replaced any function of Python's: debuggers do (os.posix_spawn, subprocess).
 *
 * `path` is run with these arguments and this environment; its descriptor 3 is `lock` (-1, or one that cannot be passed
 * on: none), all others but the standard streams are as close-on-exec has it.  No machine needs to have /dev/null.
 *
 * Context: ordinary; no Python.
 */
#include "ending.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "map.h"

#define STACK (64 * 1024)
#define NOTHING "/dev/null"
enum {
    LOCK = 3,
    ABOVE
}; /* where the lock is in the new process; the first number that means nothing there */

int own_process_comes_back(void)
{
    int subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    return subreaper || getpid() == 1;
}

struct order {
    const char *path;
    char *const *argv, *const *environment;
    int null, lock, input; /* descriptors of ours, for this order alone; -1: none */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid;
    int error;
};

/* Nothing can be read there, and what is written is gone, at the latest with the process. */
static int open_null(void)
{
    int fd = open(NOTHING, O_RDWR | O_CLOEXEC);
    return fd >= 0 ? fd : memfd_create("null", MFD_CLOEXEC);
}

/* Is not one that the actions write to: they are done one after the other. */
static int apart(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
    close(fd);
    return moved;
}

static int prepare(struct order *o, int lock, int input, int n_null, int blocked, short flags)
{
    sigset_t set;
    int error = 0;
    o->null = apart(open_null());
    /* Ours has a high number, which a limit that the program has lowered since may forbid to name. */
    o->lock = lock >= 0 ? fcntl(lock, F_DUPFD_CLOEXEC, ABOVE) : -1;
    o->input = input >= 0 ? fcntl(input, F_DUPFD_CLOEXEC, ABOVE) : -1;
    error = posix_spawn_file_actions_init(&o->actions);
    for (int fd = 0; fd < n_null && !error; fd++)
        error = o->null >= 0
                    ? posix_spawn_file_actions_adddup2(&o->actions, o->null, fd)
                    : posix_spawn_file_actions_addopen(&o->actions, fd, NOTHING, O_RDWR, 0);
    if (o->input >= 0 && !error)
        error = posix_spawn_file_actions_adddup2(&o->actions, o->input, STDIN_FILENO);
    if (o->lock >= 0 && !error)
        error = posix_spawn_file_actions_adddup2(&o->actions, o->lock, LOCK);
    posix_spawnattr_init(&o->attributes);
    sigemptyset(&set);
    if (blocked)
        sigaddset(&set, blocked);
    posix_spawnattr_setsigmask(&o->attributes, &set);
    posix_spawnattr_setflags(&o->attributes, (short)(POSIX_SPAWN_SETSIGMASK | flags));
    return -error;
}

static void finish(struct order *o)
{
    posix_spawn_file_actions_destroy(&o->actions);
    posix_spawnattr_destroy(&o->attributes);
    if (o->null >= 0)
        close(o->null);
    if (o->lock >= 0)
        close(o->lock);
    if (o->input >= 0)
        close(o->input);
}

static int spawn(void *arg)
{
    struct order *o = arg;
    o->error = posix_spawn(&o->pid, o->path, &o->actions, &o->attributes, o->argv, o->environment);
    return 0;
}

/* Where the program has closed standard error, a file of its own may have the number. */
static bool inherits(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

pid_t own_process_child(const char *path, char *const argv[], char *const environment[], int lock,
                        int input)
{
    struct order o = {.path = path, .argv = argv, .environment = environment};
    int n_null = inherits(STDERR_FILENO) ? 2 : 3;
    int error = prepare(&o, lock, input, n_null, SIGINT, 0);
    if (!error) {
        spawn(&o);
        error = -o.error;
    }
    finish(&o);
    return error ? error : o.pid;
}

/* `spawn` in a child that shares our memory, while we wait: it ends then, which leaves its child to others. */
int own_process_orphan(const char *path, char *const argv[], char *const environment[], int lock,
                       int input, bool reports)
{
    struct order o = {.path = path, .argv = argv, .environment = environment};
    char *stack = map_memory(STACK);
    if (!stack)
        return -ENOMEM;
    int n_null = reports && inherits(STDERR_FILENO) ? 2 : 3;
    int error = prepare(&o, lock, input, n_null, 0, POSIX_SPAWN_SETSID);
    if (!error) {
        sigset_t all, old; /* no handler of the program's may run in that child */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        pid_t pid = clone(spawn, stack + STACK, CLONE_VM | CLONE_VFORK, &o); /* no exit signal */
        error = pid < 0 ? -errno : -o.error;
        while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
            ;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    finish(&o);
    map_memory_free(stack, STACK);
    return error;
}
