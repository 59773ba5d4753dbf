/* backward_drain.c - what was done later for calls (backward_work.h): to the spool.
 *
 * The sums are replaced records of it, a block each, of which those that changed are written.
 *
 * Context: the drain thread; never needs the GIL.
 */
#include "exact_parts.h"

#include <string.h>

#include "map.h"

struct backward_drain_block {
    struct spool_place place;
    uint64_t calls; /* of the rows in the spool */
};

void backward_drain_free(struct backward_drain *l)
{
    map_memory_free(l->blocks, l->blocks_bytes);
}

void backward_drain_take(struct spool *s)
{
    const struct backward_turn *turn;
    for (size_t bytes; (turn = backward_turns(&bytes)); backward_turns_release(bytes))
        spool_append(s, SPOOL_BACKWARD_TURNS, turn, bytes, NULL, 0);
}

/* Before the rows that have them. */
static void write_names(struct backward_drain *l, struct spool *s)
{
    for (const char *name; (name = backward_name(l->n_named + 1)); l->n_named++) {
        struct spool_backward_name head = {.number = l->n_named + 1};
        spool_append(s, SPOOL_BACKWARD_NAME, &head, sizeof head, name, strlen(name));
    }
}

void backward_drain_write(struct backward_drain *l, struct spool *s)
{
    uint32_t n;
    write_names(l, s);
    for (uint32_t block = 0; backward_sums_read(block, l->rows, &n); block++) {
        if (!map_memory_grow(&l->blocks, &l->blocks_bytes, block + 1, sizeof *l->blocks))
            return;
        uint64_t calls = 0;
        for (uint32_t i = 0; i < n; i++)
            calls += l->rows[i].calls;
        struct backward_drain_block *b = &l->blocks[block];
        if (calls == b->calls)
            continue;
        struct spool_backward head = {.n = n};
        if (!spool_replace(s, &b->place, SPOOL_BACKWARD, sizeof head + sizeof l->rows, &head,
                           sizeof head, l->rows, n * sizeof *l->rows))
            b->calls = calls;
    }
}
