#include "thread.h"

struct thread *registry_find(const struct registry *r, pid_t tid)
{
    uint32_t n = atomic_load_explicit(&r->n, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&r->slot[i].tid, memory_order_acquire) == tid)
            return atomic_load_explicit(&r->slot[i].thread, memory_order_relaxed);
    return NULL;
}
