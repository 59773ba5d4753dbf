#include "event_log.h"

bool event_put_slow(struct event_ring *r, uint64_t now)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint32_t used = head - atomic_load_explicit(&r->tail, memory_order_acquire);
    if (used > EVENT_SLOTS - EVENT_RESERVE) {
        r->lost += r->lost < EVENT_VALUE_MAX;
        return false;
    }
    if (r->lost)
        r->slot[head++ & (EVENT_SLOTS - 1)] = event_word(EVENT_GAP, r->lost, 0);
    r->lost = 0;
    uint64_t step = now - r->last;
    if ((int64_t)step < 0) { /* another processor's clock is a little behind */
        r->last = now;
    } else if (step >> 32) {
        r->slot[head++ & (EVENT_SLOTS - 1)] =
            event_word(EVENT_TIME, (uint32_t)(step >> 32), (uint32_t)step);
        r->last = now;
    }
    atomic_store_explicit(&r->head, head, memory_order_release);
    return true;
}
