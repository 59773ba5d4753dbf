/* event_log.h - every begin and end of a Python function or region, in order of time: one ring for each thread.
 *
 * An event is a 64-bit word: 31..0 ticks since the event before; 34..32 enum event_kind; 63..35 the node
 * (call_tree.h), or the value that the kind has.
 *
 * Context: event_put is the thread's own (with the GIL); exact_log.c reads the ring.
 */
#ifndef PYH_EVENT_LOG_H
#define PYH_EVENT_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum event_kind {
    EVENT_CALL,   /* a function begins */
    EVENT_RESUME, /* a generator or coroutine goes on */
    EVENT_RETURN,
    EVENT_YIELD,
    EVENT_RAISE, /* it ends by an exception */
    EVENT_TIME,  /* no event: its value is the upper bits of the ticks since the event before */
    EVENT_GAP,   /* the ring was full: its value is the number of events that are missing */
};

#define EVENT_KIND_SHIFT 32
#define EVENT_VALUE_SHIFT 35
#define EVENT_VALUE_MAX ((1u << 29) - 1)
#define EVENT_SLOTS (1u << 19)
#define EVENT_RESERVE 3 /* an event may need a gap and a time before it */

struct event_ring {
    uint64_t *slot; /* NULL: no log */
    uint64_t last;  /* ticks of the newest event */
    uint32_t lost;  /* since then */
    _Atomic uint32_t head, tail;
};

static inline uint64_t event_word(enum event_kind kind, uint32_t value, uint32_t step)
{
    return (uint64_t)value << EVENT_VALUE_SHIFT | (uint64_t)kind << EVENT_KIND_SHIFT | step;
}

/* Handles the rare cases: the ring is full (returns false), was full, or the step needs more than 32 bits. */
bool event_put_slow(struct event_ring *r, uint64_t now);

static inline void event_put(struct event_ring *r, enum event_kind kind, uint32_t value,
                             uint64_t now)
{
    uint32_t used = atomic_load_explicit(&r->head, memory_order_relaxed) -
                    atomic_load_explicit(&r->tail, memory_order_acquire);
    if (__builtin_expect((now - r->last) >> 32 || used > EVENT_SLOTS - EVENT_RESERVE || r->lost,
                         0) &&
        !event_put_slow(r, now))
        return;
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    r->slot[head & (EVENT_SLOTS - 1)] = event_word(kind, value, (uint32_t)(now - r->last));
    r->last = now;
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

#endif
