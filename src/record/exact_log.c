/* exact_log.c - from the threads' event logs and kept calls to the spool.
 *
 * Context: the drain thread; never needs the GIL.
 */
#include "exact_parts.h"

#include <string.h>

#include "clock.h"
#include "map.h"

#define CALLS_WAITING                                                                              \
    (1u << 20) /* bytes of one thread, for which the drain is not to wait longer */

struct event_block {
    struct event_block *next;
    uint64_t taken_ns;
    size_t bytes;
    struct spool_events head;
    uint64_t event[];
};

static void write_events(struct spool *s, const struct spool_events *head, const uint64_t *event)
{
    spool_append(s, SPOOL_EVENTS, head, sizeof *head, event, head->n * sizeof *event);
}

static void drop_first(struct exact_log *l)
{
    struct event_block *b = l->first;
    l->n_events -= b->head.n;
    if (!(l->first = b->next))
        l->last = NULL;
    map_memory_free(b, b->bytes);
}

/* Only the last ones are wanted: a block more, and those that are too old less. */
static void hold_back(struct exact_log *l, const struct spool_events *head, const uint64_t *event)
{
    uint64_t now = clock_now_ns();
    size_t bytes = sizeof(struct event_block) + head->n * sizeof *event;
    struct event_block *b = map_memory(bytes);
    if (!b)
        return;
    b->taken_ns = now;
    b->bytes = bytes;
    b->head = *head;
    if (head->n)
        memcpy(b->event, event, head->n * sizeof *event);
    if (l->last)
        l->last->next = b;
    else
        l->first = b;
    l->last = b;
    l->n_events += head->n;
    while (l->first != b &&
           (l->first->taken_ns + l->keep_ns < now || l->n_events > EXACT_LOG_MEMORY))
        drop_first(l);
}

static void put_out(struct exact_log *l, struct spool *s, const struct spool_events *head,
                    const uint64_t *event)
{
    if (l->keep_ns)
        hold_back(l, head, event);
    else
        write_events(s, head, event);
}

static void take_events(struct exact_log *l, struct spool *s, struct exact_thread *t)
{
    struct event_ring *r = &t->events;
    uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    while (r->slot && tail != head) {
        uint32_t at = tail & (EVENT_SLOTS - 1), n = head - tail;
        if (n > EVENT_SLOTS - at)
            n = EVENT_SLOTS - at;
        const uint64_t *event = r->slot + at;
        struct spool_events part = {.thread = t->index, .n = n, .first_ticks = t->events_ticks};
        for (uint32_t i = 0; i < n; i++) {
            t->events_ticks += (uint32_t)event[i];
            if ((event[i] >> EVENT_KIND_SHIFT & 7) == EVENT_TIME)
                t->events_ticks += event[i] >> EVENT_VALUE_SHIFT << 32;
        }
        part.last_ticks = t->events_ticks;
        if (!l->keep_ns && (l->n_events += n) > EXACT_LOG_EVENTS) {
            part.n_dropped = n;
            part.n = 0;
        }
        put_out(l, s, &part, event);
        tail += n;
        atomic_store_explicit(&r->tail, tail, memory_order_release);
    }
}

void exact_log_end_thread(struct exact_log *l, struct spool *s, struct exact_thread *t)
{
    struct spool_events part = {.thread = t->index,
                                .first_ticks = t->events_ticks,
                                .last_ticks = t->events_ticks,
                                .n_dropped = t->events.lost};
    if (part.n_dropped)
        put_out(l, s, &part, NULL);
    t->events.lost = 0;
}

/* The nodes of a folded thread's calls are its fold's.  False: one has no place there yet. */
static bool fold_turns(const struct exact_thread *t, unsigned char *calls, size_t bytes)
{
    struct call_turn *turn;
    for (int pass = 0; pass < 2; pass++)
        for (size_t at = 0; at < bytes; at += sizeof *turn + ((turn->more + 7u) & ~7u)) {
            turn = (struct call_turn *)(calls + at);
            if (turn->node && !exact_fold_node(t, turn->node))
                return false;
            if (pass)
                turn->node = exact_fold_node(t, turn->node);
        }
    return true;
}

static bool fold_watched(const struct exact_thread *t, struct watched_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!exact_fold_node(t, calls[i].node))
            return false;
    for (size_t i = 0; i < n; i++)
        calls[i].node = exact_fold_node(t, calls[i].node);
    return true;
}

static bool fold_calls(const struct exact_thread *t, uint32_t type, const void *calls, size_t bytes)
{
    if (type == SPOOL_CALLS)
        return fold_turns(t, (unsigned char *)calls, bytes);
    return fold_watched(t, (struct watched_call *)calls, bytes / sizeof(struct watched_call));
}

static void take_calls(struct spool *s, const struct exact_thread *t, uint32_t type,
                       struct block_queue *from)
{
    struct spool_calls head = {.thread = t->index};
    const void *calls;
    size_t bytes;
    while ((calls = block_queue_peek(from, &bytes))) {
        if (t->fold && !fold_calls(t, type, calls, bytes))
            return;
        spool_append(s, type, &head, sizeof head, calls, bytes);
        block_queue_release(from, bytes);
    }
}

void exact_log_take(struct exact_log *l, struct spool *s, struct exact_thread *t)
{
    take_events(l, s, t);
    take_calls(s, t, SPOOL_CALLS, &t->calls.queue);
    take_calls(s, t, SPOOL_WATCHED, &t->watched.queue);
}

void exact_log_write_times(struct spool *s, struct exact_thread *t)
{
    struct call_times *c = atomic_load_explicit(&t->calls.first, memory_order_acquire);
    for (; c; c = c->next) {
        struct spool_call_times head = {
            .thread = t->index,
            .node = c->node,
            .n = atomic_load_explicit(&c->n, memory_order_relaxed),
            .sum = atomic_load_explicit(&c->sum, memory_order_relaxed),
            .max = atomic_load_explicit(&c->max, memory_order_relaxed),
            .n_lost = atomic_load_explicit(&t->calls.n_lost, memory_order_relaxed)};
        if (head.n == c->n_written)
            continue;
        if (!c->place && map_memory_grow(&t->call_places, &t->call_places_bytes,
                                         (size_t)t->n_call_places + 1, sizeof *t->call_places))
            c->place = ++t->n_call_places;
        if (!c->place)
            continue;
        c->n_written = head.n;
        uint32_t bucket[CALLS_BUCKETS];
        for (uint32_t i = 0; i < CALLS_BUCKETS; i++)
            bucket[i] = atomic_load_explicit(&c->bucket[i], memory_order_relaxed);
        spool_replace(s, &t->call_places[c->place - 1], SPOOL_CALL_TIMES,
                      sizeof head + sizeof bucket, &head, sizeof head, bucket, sizeof bucket);
    }
}

void exact_log_end(struct exact_log *l, struct spool *s)
{
    while (l->first) {
        write_events(s, &l->first->head, l->first->event);
        drop_first(l);
    }
}

void exact_log_free(struct exact_log *l)
{
    while (l->first)
        drop_first(l);
}

bool exact_log_urgent(const struct exact_thread *t)
{
    const struct event_ring *r = &t->events;
    if (block_queue_waiting(&t->calls.queue) > CALLS_WAITING)
        return true;
    return r->slot && atomic_load_explicit(&r->head, memory_order_relaxed) -
                              atomic_load_explicit(&r->tail, memory_order_relaxed) >
                          EVENT_SLOTS / 4;
}
