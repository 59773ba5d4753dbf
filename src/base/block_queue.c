#include "block_queue.h"

#include "map.h"

struct queue_block {
    _Atomic(struct queue_block *) next;
    _Atomic uint32_t used;
    uint32_t read, bytes; /* in all */
    uint32_t pad;
    unsigned char data[];
};

static struct queue_block *add_block(struct block_queue *q, size_t least, size_t first_bytes)
{
    size_t bytes = q->tail ? 2 * (size_t)q->tail->bytes : first_bytes;
    if (bytes > BLOCK_QUEUE_BYTES)
        bytes = BLOCK_QUEUE_BYTES;
    if (bytes < least + sizeof(struct queue_block))
        bytes = least + sizeof(struct queue_block);
    struct queue_block *b = map_memory(bytes);
    if (!b)
        return NULL;
    b->bytes = (uint32_t)bytes;
    if (q->tail)
        atomic_store_explicit(&q->tail->next, b, memory_order_release);
    else
        atomic_store_explicit(&q->first, b, memory_order_release);
    return q->tail = b;
}

void *block_queue_reserve(struct block_queue *q, size_t bytes, size_t first_bytes)
{
    struct queue_block *b = q->tail;
    uint32_t used = b ? atomic_load_explicit(&b->used, memory_order_relaxed) : 0;
    if (!b || sizeof *b + used + bytes > b->bytes) {
        b = add_block(q, bytes, first_bytes);
        used = 0;
    }
    return b ? b->data + used : NULL;
}

void block_queue_commit(struct block_queue *q, size_t bytes)
{
    uint32_t whole = (uint32_t)((bytes + 7) & ~(size_t)7);
    uint32_t used = atomic_load_explicit(&q->tail->used, memory_order_relaxed);
    atomic_store_explicit(&q->n_written,
                          atomic_load_explicit(&q->n_written, memory_order_relaxed) + whole,
                          memory_order_relaxed);
    atomic_store_explicit(&q->tail->used, used + whole, memory_order_release);
}

const void *block_queue_peek(struct block_queue *q, size_t *bytes)
{
    if (!q->head)
        q->head = atomic_load_explicit(&q->first, memory_order_acquire);
    struct queue_block *b = q->head;
    while (b && b->read == atomic_load_explicit(&b->used, memory_order_acquire)) {
        struct queue_block *next = atomic_load_explicit(&b->next, memory_order_acquire);
        if (!next)
            return NULL;
        /* The writer left it for good before it published the next one. */
        if (b->read != atomic_load_explicit(&b->used, memory_order_acquire))
            continue;
        q->head = next;
        map_memory_free(b, b->bytes);
        b = next;
    }
    if (!b)
        return NULL;
    *bytes = atomic_load_explicit(&b->used, memory_order_acquire) - b->read;
    return b->data + b->read;
}

void block_queue_release(struct block_queue *q, size_t bytes)
{
    uint32_t whole = (uint32_t)((bytes + 7) & ~(size_t)7);
    q->head->read += whole;
    q->n_read += whole;
}

void block_queue_clear(struct block_queue *q)
{
    struct queue_block *b = q->head ? q->head : atomic_load(&q->first);
    for (struct queue_block *next; b; b = next) {
        next = atomic_load(&b->next);
        map_memory_free(b, b->bytes);
    }
    *q = (struct block_queue){0};
}
