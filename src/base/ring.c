#include "ring.h"

void ring_init(struct ring *r, void *data, size_t size)
{
    r->data = data;
    r->mask = size - 1;
    atomic_store_explicit(&r->head, 0, memory_order_relaxed);
    atomic_store_explicit(&r->tail, 0, memory_order_relaxed);
}

/* Bytes to skip so that `size` bytes from `head` are contiguous. */
static uint64_t padding_for(const struct ring *r, uint64_t head, uint64_t size)
{
    uint64_t to_end = r->mask + 1 - (head & r->mask);
    return size > to_end ? to_end : 0;
}

void *ring_reserve(struct ring *r, size_t size)
{
    size = (size + 7) & ~7ull;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t skip = padding_for(r, head, size);
    if (head + skip + size - tail > r->mask + 1)
        return NULL;
    return r->data + ((head + skip) & r->mask);
}

void ring_commit(struct ring *r, void *record, size_t size, uint32_t type)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t at = (uint64_t)((unsigned char *)record - r->data);
    uint64_t skip = (at - head) & r->mask;
    size = (size + 7) & ~7ull;
    if (skip) {
        struct ring_record *pad = (struct ring_record *)(r->data + (head & r->mask));
        *pad = (struct ring_record){(uint32_t)skip, 0};
    }
    *(struct ring_record *)record = (struct ring_record){(uint32_t)size, type};
    atomic_store_explicit(&r->head, head + skip + size, memory_order_release);
}

const struct ring_record *ring_peek(struct ring *r)
{
    for (;;) {
        uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
        if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
            return NULL;
        const struct ring_record *record = (const struct ring_record *)(r->data + (tail & r->mask));
        if (record->type)
            return record;
        ring_release(r, record);
    }
}

void ring_release(struct ring *r, const struct ring_record *record)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    atomic_store_explicit(&r->tail, tail + record->size, memory_order_release);
}

size_t ring_used(const struct ring *r)
{
    return (size_t)(atomic_load_explicit(&r->head, memory_order_acquire) -
                    atomic_load_explicit(&r->tail, memory_order_relaxed));
}
