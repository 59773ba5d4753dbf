#include "map.h"

#include <string.h>
#include <sys/mman.h>

static void *map_with(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *map_memory(size_t bytes)
{
    return map_with(bytes, 0);
}

void *map_memory_filled(size_t bytes)
{
    return map_with(bytes, MAP_POPULATE);
}

void map_memory_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

bool map_memory_grow(void *p, size_t *bytes, size_t n, size_t size)
{
    void *old = *(void **)p, *larger;
    if (*bytes && n * size <= *bytes)
        return true;
    size_t wanted = *bytes < MAP_PAGE ? MAP_PAGE : *bytes;
    while (wanted < n * size)
        wanted *= 2;
    if (!(larger = map_memory(wanted)))
        return false;
    if (old)
        memcpy(larger, old, *bytes);
    if (*bytes >= MAP_PAGE)
        map_memory_free(old, *bytes);
    *(void **)p = larger;
    *bytes = wanted;
    return true;
}

static uint64_t *find(uint64_t *slots, size_t mask, uint64_t key)
{
    size_t at = map_hash(key) & mask;
    while (slots[2 * at] && slots[2 * at] != key)
        at = (at + 1) & mask;
    return &slots[2 * at];
}

uint64_t *map_get(const struct map *m, uint64_t key)
{
    if (!m->slots)
        return NULL;
    uint64_t *slot = find(m->slots, m->mask, key);
    return *slot ? slot + 1 : NULL;
}

static int grow(struct map *m)
{
    size_t capacity = m->slots ? 2 * (m->mask + 1) : 1024;
    uint64_t *slots = map_memory(16 * capacity);
    if (!slots)
        return -1;
    for (size_t i = 0; m->slots && i <= m->mask; i++) {
        uint64_t *old = &m->slots[2 * i];
        if (!old[0])
            continue;
        uint64_t *slot = find(slots, capacity - 1, old[0]);
        slot[0] = old[0];
        slot[1] = old[1];
    }
    map_memory_free(m->slots, m->slots ? 16 * (m->mask + 1) : 0);
    m->slots = slots;
    m->mask = capacity - 1;
    return 0;
}

uint64_t *map_put(struct map *m, uint64_t key)
{
    if ((!m->slots || m->n * 4 >= 3 * (m->mask + 1)) && grow(m))
        return NULL;
    uint64_t *slot = find(m->slots, m->mask, key);
    if (!slot[0]) {
        slot[0] = key;
        m->n++;
    }
    return slot + 1;
}

void map_zero_below(struct map *m, uint64_t limit)
{
    for (size_t i = 0; m->slots && i <= m->mask; i++)
        if (m->slots[2 * i + 1] < limit)
            m->slots[2 * i + 1] = 0;
}

void map_clear(struct map *m)
{
    map_memory_free(m->slots, m->slots ? 16 * (m->mask + 1) : 0);
    *m = (struct map){0};
}
