#include "watched_calls.h"

#include "clock.h"
#include "map.h"

void watched_begin(struct watched_calls *w, uint32_t place, bool is_seen)
{
    if (map_memory_grow(&w->cpu_ns, &w->cpu_bytes, (size_t)place + 1, sizeof *w->cpu_ns))
        w->cpu_ns[place] = is_seen ? clock_read_ns(CLOCK_THREAD_CPUTIME_ID) : WATCHED_UNSEEN;
}

bool watched_end(struct watched_calls *w, uint32_t place, struct watched_call *call)
{
    if (place >= w->cpu_bytes / sizeof *w->cpu_ns || w->cpu_ns[place] == WATCHED_UNSEEN)
        return false;
    call->cpu_since_ns = w->cpu_ns[place];
    call->cpu_until_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    return watched_add(w, call);
}

bool watched_add(struct watched_calls *w, const struct watched_call *call)
{
    struct watched_call *to = block_queue_reserve(&w->queue, sizeof *to, WATCHED_QUEUE_FIRST);
    if (!to)
        return false;
    *to = *call;
    block_queue_commit(&w->queue, sizeof *to);
    return true;
}

void watched_clear(struct watched_calls *w)
{
    block_queue_clear(&w->queue);
    map_memory_free(w->cpu_ns, w->cpu_bytes);
    *w = (struct watched_calls){0};
}
