#include "watched_calls.h"

#include "clock.h"
#include "map.h"

void watched_begin(struct watched_calls *w, uint32_t place, uint64_t since, bool is_seen,
                   uint64_t made)
{
    if (map_memory_grow(&w->begins, &w->begins_bytes, (size_t)place + 1, sizeof *w->begins))
        w->begins[place] = (struct watched_begin){
            .since = since,
            .cpu_ns = is_seen ? clock_read_ns(CLOCK_THREAD_CPUTIME_ID) : WATCHED_UNSEEN,
            .made = made,
            .within = backward_place()};
}

void watched_begin_anew(struct watched_calls *w, uint32_t place, uint64_t since, uint64_t made)
{
    if (place >= w->begins_bytes / sizeof *w->begins)
        return;
    struct watched_begin *begin = &w->begins[place];
    begin->since = since;
    begin->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    begin->made = made;
}

void watched_note(struct watched_calls *w, uint32_t place, uint32_t elements)
{
    if (place < w->begins_bytes / sizeof *w->begins)
        w->begins[place].elements = elements;
}

bool watched_end(struct watched_calls *w, uint32_t place, struct watched_call *call, uint64_t made,
                 bool room)
{
    if (place >= w->begins_bytes / sizeof *w->begins || w->begins[place].cpu_ns == WATCHED_UNSEEN)
        return false;
    const struct watched_begin *begin = &w->begins[place];
    call->since = begin->since;
    backward_leave_out(begin->within, call->until - call->since);
    call->cpu_since_ns = begin->cpu_ns;
    call->cpu_until_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    call->how |= begin->elements << WATCHED_FREED;
    if (made != UINT64_MAX && made == begin->made)
        call->how |= WATCHED_MADE_NONE;
    return room && watched_add(w, call);
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
    map_memory_free(w->begins, w->begins_bytes);
    *w = (struct watched_calls){0};
}
