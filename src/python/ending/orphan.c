#include "orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "map.h"

#define STACK (64 * 1024)

int orphan_comes_back(void)
{
    int subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    return subreaper || getpid() == 1;
}

struct order {
    const char *path;
    char *const *argv, *const *environment;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error;
};

/* In a child that shares our memory, while we wait: it spawns and ends, which leaves its child to others. */
static int spawn(void *arg)
{
    struct order *o = arg;
    pid_t pid;
    o->error = posix_spawn(&pid, o->path, &o->actions, &o->attributes, o->argv, o->environment);
    return 0;
}

static int prepare(struct order *o, int lock)
{
    sigset_t set;
    for (int fd = 0; fd < 3; fd++)
        if (posix_spawn_file_actions_addopen(&o->actions, fd, "/dev/null", O_RDWR, 0))
            return -ENOMEM;
    if (lock >= 0 && posix_spawn_file_actions_adddup2(&o->actions, lock, 3))
        return -ENOMEM;
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&o->attributes, &set);
    posix_spawnattr_setflags(&o->attributes, POSIX_SPAWN_SETSIGMASK);
    return 0;
}

int orphan_spawn(const char *path, char *const argv[], char *const environment[], int lock)
{
    struct order o = {.path = path, .argv = argv, .environment = environment, .error = 0};
    char *stack = map_memory(STACK);
    if (!stack)
        return -ENOMEM;
    posix_spawn_file_actions_init(&o.actions);
    posix_spawnattr_init(&o.attributes);
    int error = prepare(&o, lock);
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
    posix_spawn_file_actions_destroy(&o.actions);
    posix_spawnattr_destroy(&o.attributes);
    map_memory_free(stack, STACK);
    return error;
}
