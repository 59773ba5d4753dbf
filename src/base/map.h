/* map.h - a hash table from a non-zero 64-bit key to a 64-bit value; it grows.
 *
 * Memory comes from mmap, not malloc: the drain thread must not meet the program's allocator.
 *
 * Context: ordinary threads, one at a time.
 */
#ifndef PYH_MAP_H
#define PYH_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
    uint64_t *slots; /* key, value, key, value, ... */
    size_t mask, n;
};

/* Returns the value's place, or NULL if `key` is not there. */
uint64_t *map_get(const struct map *m, uint64_t key);

/* Returns the value's place, where a new one is 0; NULL: no memory. */
uint64_t *map_put(struct map *m, uint64_t key);

/* Makes values less than `limit` 0. */
void map_zero_below(struct map *m, uint64_t limit);

void map_clear(struct map *m); /* forgets all, gives the memory back */

/* Mixes 64 bits well enough for a table of a power of two. */
static inline uint64_t map_hash(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x;
}

/* Returns zeroed memory in whole pages; NULL if there is none. */
void *map_memory(size_t bytes);
void *map_memory_filled(size_t bytes); /* all pages are there: one system call, not a fault each */
void map_memory_free(void *p, size_t bytes);

#define MAP_PAGE 4096

/* Makes room for at least `n` elements of `size` bytes in `*p`, which may move; the rest is zero.  What has less than
 * MAP_PAGE bytes is a piece of something larger, and is left there when more are needed.  Returns false, with nothing
 * changed, if there is no memory. */
bool map_memory_grow(void *p, size_t *bytes, size_t n, size_t size);

#endif
