#include "loader_lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define PATIENCE_NS 100000000
#define PATIENCE_INSIDE 100 /* so many times that, where the loader's lock is ours */

static pthread_mutex_t iterating = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool inside;  /* who has it has the loader's lock, too */
static _Atomic long forking; /* the thread that holds it for a fork; 0: none */

struct visit {
    int (*callback)(struct dl_phdr_info *, size_t, void *);
    void *data;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct visit *v = data;
    atomic_store(&inside, true);
    return v->callback(info, size, v->data);
}

int loader_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    loader_keep_forks_out();
    int result = dl_iterate_phdr(visit, &(struct visit){callback, data});
    atomic_store(&inside, false);
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

static bool enter_soon(void)
{
    uint64_t until_ns = clock_read_ns(CLOCK_REALTIME) + PATIENCE_NS;
    struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    return !pthread_mutex_timedlock(&iterating, &until);
}

void loader_before_fork(void)
{
    bool entered = enter_soon();
    for (int i = 1; !entered && i < PATIENCE_INSIDE && atomic_load(&inside); i++)
        entered = enter_soon();
    if (entered)
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
    atomic_store(&inside, false);
    atomic_store(&forking, 0);
}
