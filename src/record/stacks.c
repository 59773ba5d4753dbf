#include "stacks.h"

#include <errno.h>
#include <stddef.h>

#include "frame.h"
#include "map.h"

static uint32_t hash(uint32_t parent, uint64_t word)
{
    return (uint32_t)map_hash(word ^ (uint64_t)parent * 0x9e3779b97f4a7c15ull);
}

int stacks_init(struct stacks *t, uint32_t max)
{
    /* An eighth more for [tree full] nodes. */
    *t = (struct stacks){.max = max, .capacity = max + max / 8 + 2, .mask = 4095};
    t->parent = map_memory((size_t)(t->capacity + 1) * sizeof *t->parent);
    t->word = map_memory((size_t)(t->capacity + 1) * sizeof *t->word);
    t->table = map_memory(((size_t)t->mask + 1) * sizeof *t->table);
    if (t->parent && t->word && t->table)
        return 0;
    stacks_free(t);
    return -ENOMEM;
}

void stacks_free(struct stacks *t)
{
    map_memory_free(t->parent, (size_t)(t->capacity + 1) * sizeof *t->parent);
    map_memory_free(t->word, (size_t)(t->capacity + 1) * sizeof *t->word);
    map_memory_free(t->table, ((size_t)t->mask + 1) * sizeof *t->table);
    *t = (struct stacks){0};
}

static uint32_t *find(const struct stacks *t, uint32_t parent, uint64_t word)
{
    uint32_t at = hash(parent, word) & t->mask;
    while (t->table[at]) {
        uint32_t id = t->table[at];
        if (t->parent[id] == parent && t->word[id] == word)
            break;
        at = (at + 1) & t->mask;
    }
    return &t->table[at];
}

static int grow(struct stacks *t)
{
    uint32_t mask = 2 * t->mask + 1;
    uint32_t *table = map_memory(((size_t)mask + 1) * sizeof *table);
    if (!table)
        return -ENOMEM;
    map_memory_free(t->table, ((size_t)t->mask + 1) * sizeof *t->table);
    t->table = table;
    t->mask = mask;
    for (uint32_t id = 1; id <= t->n; id++)
        *find(t, t->parent[id], t->word[id]) = id;
    return 0;
}

static uint32_t add(struct stacks *t, uint32_t *slot, uint32_t parent, uint64_t word)
{
    uint32_t id = ++t->n;
    t->parent[id] = parent;
    t->word[id] = word;
    *slot = id;
    return id;
}

uint32_t stacks_child(struct stacks *t, uint32_t parent, uint64_t word, int *full)
{
    uint32_t *slot = find(t, parent, word), known = *slot;
    *full = 0;
    if (known)
        return known;
    if (t->n < t->max) {
        if (t->n >= t->mask / 4 * 3 && !grow(t))
            slot = find(t, parent, word);
        if (t->n + 1 <
            t->mask) /* one place stays free for the last, and one for `find` to end at */
            return add(t, slot, parent, word);
    }
    *full = 1;
    t->n_full++;
    word = frame_pseudo(PSEUDO_TREE_FULL);
    slot = find(t, parent, word);
    known = *slot;
    if (known)
        return known;
    if (t->n + 1 < t->capacity && t->n + 1 < t->mask)
        return add(t, slot, parent, word);
    slot = find(t, 0, word); /* the last one stands under the root */
    return *slot ? *slot : add(t, slot, 0, word);
}
