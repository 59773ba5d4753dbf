/* ring.h - one writer, one reader, records of bytes, no lock.
 *
 * Writer: the signal handler of one thread.  Reader: the drain thread.  A record is contiguous;
 * one that does not fit before the end of the buffer is preceded by padding.
 *
 * Context: ring_reserve and ring_commit are async-signal-safe; ring_peek and ring_release are for
 * the reader; ring_init for whoever owns the memory.
 */
#ifndef PYH_RING_H
#define PYH_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ring_record {
    uint32_t size; /* of the whole record, a multiple of 8 */
    uint32_t type; /* 0: padding */
};

struct ring {
    unsigned char *data;
    uint64_t mask;
    _Atomic uint64_t head; /* written up to here */
    _Atomic uint64_t tail; /* read up to here */
};

/* Makes an empty ring of `size` bytes (a power of two) at `data`, 8-aligned. */
void ring_init(struct ring *r, void *data, size_t size);

/* Returns room for a record of up to `size` bytes, header included, or NULL.  Nothing is visible to the
 * reader before ring_commit; a reservation that is not committed costs nothing. */
void *ring_reserve(struct ring *r, size_t size);

/* Publishes the record at `record`, the last one reserved; `size` <= the size reserved. */
void ring_commit(struct ring *r, void *record, size_t size, uint32_t type);

/* Returns the oldest record, or NULL.  It stays until ring_release. */
const struct ring_record *ring_peek(struct ring *r);
void ring_release(struct ring *r, const struct ring_record *record);

/* Returns the bytes in use, to judge how urgent draining is; for the reader or the writer. */
size_t ring_used(const struct ring *r);

#endif
