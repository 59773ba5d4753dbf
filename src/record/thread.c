#include "thread.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"

struct thread *registry_find(const struct registry *r, pid_t tid)
{
    return tid >= 0 && tid < TIDS_MAX ? atomic_load_explicit(&r->of_tid[tid], memory_order_acquire)
                                      : NULL;
}

static struct thread *take_from_stock(struct registry *r)
{
    for (int i = 0; i < THREADS_STOCK; i++)
        if (atomic_load_explicit(&r->stock[i], memory_order_relaxed)) {
            struct thread *t = atomic_exchange(&r->stock[i], NULL);
            if (t)
                return t;
        }
    return NULL;
}

struct thread *registry_claim(struct registry *r, pid_t tid)
{
    struct thread *theirs = registry_find(r, tid);
    if (theirs || tid < 0 || tid >= TIDS_MAX)
        return theirs;
    struct thread *t = take_from_stock(r);
    if (!t)
        return NULL;
    arch_syscall6(SYS_prctl, PR_GET_NAME, (long)t->comm, 0, 0, 0, 0);
    t->tid = tid;
    t->claimed = t->is_young = true;
    if (!atomic_compare_exchange_strong(&r->of_tid[tid], &theirs, t))
        t->tid = 0; /* the drain thread has just made one */
    t->next_claimed = atomic_load(&r->claimed);
    while (!atomic_compare_exchange_weak(&r->claimed, &t->next_claimed, t))
        ;
    return theirs ? theirs : t;
}
