/* block_queue.h - bytes from one writer to one reader, in blocks of memory that are made as they are needed: nothing is
 * lost but for want of memory, and nobody waits.
 *
 * Records are whole in a block, and stand at multiples of 8.
 *
 * Context: each function states whose it is: the writer's (one at a time), or the reader's.
 */
#ifndef PYH_BLOCK_QUEUE_H
#define PYH_BLOCK_QUEUE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_QUEUE_BYTES (256u << 10) /* of a block at most; the first one has `first_bytes` */

struct queue_block;

/* Zeroed: empty. */
struct block_queue {
    struct queue_block *tail;            /* the writer's */
    struct queue_block *head;            /* the reader's */
    _Atomic(struct queue_block *) first; /* from the one to the other */
    _Atomic uint64_t n_written;          /* bytes */
    uint64_t n_read;                     /* the reader's */
};

/* The writer's: reserves room for `bytes`, which block_queue_commit hands over (or fewer of them); a reservation before
 * that takes the same place.  Returns NULL if there is no memory. */
void *block_queue_reserve(struct block_queue *q, size_t bytes, size_t first_bytes);
void block_queue_commit(struct block_queue *q, size_t bytes);

/* The reader's: returns what waits, as far as it lies together; NULL: nothing does.  It stays until the next call after
 * it was released. */
const void *block_queue_peek(struct block_queue *q, size_t *bytes);
void block_queue_release(struct block_queue *q, size_t bytes);

static inline uint64_t block_queue_waiting(const struct block_queue *q)
{
    return atomic_load_explicit(&q->n_written, memory_order_relaxed) - q->n_read;
}

void block_queue_clear(struct block_queue *q); /* when nobody writes */

#endif
