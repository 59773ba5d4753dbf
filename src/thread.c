#include "thread.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"

struct thread *registry_find(const struct registry *r, pid_t tid)
{
    uint32_t n = atomic_load_explicit(&r->n, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&r->slot[i].tid, memory_order_acquire) == tid)
            return atomic_load_explicit(&r->slot[i].thread, memory_order_relaxed);
    return NULL;
}

bool registry_put(struct registry *r, struct thread *t)
{
    uint32_t at = 0;
    while (at < THREADS_MAX && atomic_load_explicit(&r->slot[at].thread, memory_order_relaxed))
        at++;
    if (at == THREADS_MAX)
        return false;
    atomic_store_explicit(&r->slot[at].thread, t, memory_order_release);
    atomic_store_explicit(&r->slot[at].tid, t->tid, memory_order_release);
    if (at >= atomic_load_explicit(&r->n, memory_order_relaxed))
        atomic_store_explicit(&r->n, at + 1, memory_order_release);
    return true;
}

/* Threads that begin together claim together, and each holds it for about a microsecond: a try for each some 20 to
 * 50 ns.  But one that holds it may have to wait for a processor. */
#define TRIES 1000

bool registry_try_change(struct registry *r)
{
    for (int tries = 0; tries < TRIES; tries++) {
        if (!atomic_flag_test_and_set(&r->changing))
            return true;
        arch_pause();
    }
    return false;
}

struct thread *registry_claim(struct registry *r, pid_t tid)
{
    char comm[sizeof((struct thread *)NULL)->comm];
    arch_syscall6(SYS_prctl, PR_GET_NAME, (long)comm, 0, 0, 0, 0);
    if (!registry_try_change(r))
        return NULL;
    struct thread *t = registry_find(r, tid); /* just made by the drain thread? */
    int at = 0;
    while (!t && at < THREADS_STOCK && !r->stock[at])
        at++;
    if (!t && at < THREADS_STOCK) {
        t = r->stock[at];
        t->tid = tid;
        t->claimed = true;
        memcpy(t->comm, comm, sizeof comm);
        if (registry_put(r, t))
            r->stock[at] = NULL;
        else
            t = NULL;
    }
    atomic_flag_clear(&r->changing);
    return t;
}
