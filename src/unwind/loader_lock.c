#include "loader_lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 100000000

static pthread_mutex_t iterating = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long forking; /* the thread that holds it for a fork; 0: none */

int loader_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    loader_keep_forks_out();
    int result = dl_iterate_phdr(callback, data);
    loader_let_forks_in();
    return result;
}

void loader_keep_forks_out(void)
{
    pthread_mutex_lock(&iterating);
}

void loader_let_forks_in(void)
{
    pthread_mutex_unlock(&iterating);
}

void loader_before_fork(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PATIENCE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (!pthread_mutex_timedlock(&iterating, &until))
        atomic_store(&forking, syscall(SYS_gettid));
}

void loader_after_fork_parent(void)
{
    if (atomic_load(&forking) != syscall(SYS_gettid))
        return;
    atomic_store(&forking, 0);
    pthread_mutex_unlock(&iterating);
}

void loader_after_fork_child(void)
{
    pthread_mutex_init(&iterating, NULL);
    atomic_store(&forking, 0);
}
