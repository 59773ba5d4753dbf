/* trace_later.c - what was done later for calls (later.h): to the spool.
 *
 * The sums are replaced records of it, a block each, of which those that changed are written.
 *
 * Context: the drain thread; never needs the GIL.
 */
#include "trace_parts.h"

#include <string.h>

#include "map.h"

struct trace_later_block {
    struct spool_place place;
    uint64_t calls; /* of the rows in the spool */
};

void trace_later_free(struct trace_later *l)
{
    map_memory_free(l->blocks, l->blocks_bytes);
}

void trace_later_take(struct spool *s)
{
    const struct later_turn *turn;
    for (size_t bytes; (turn = later_turns(&bytes)); later_turns_release(bytes))
        spool_append(s, SPOOL_LATER_TURNS, turn, bytes, NULL, 0);
}

/* Before the rows that have them. */
static void write_names(struct trace_later *l, struct spool *s)
{
    for (const char *name; (name = later_name(l->n_named + 1)); l->n_named++) {
        struct spool_later_name head = {.number = l->n_named + 1};
        spool_append(s, SPOOL_LATER_NAME, &head, sizeof head, name, strlen(name));
    }
}

void trace_later_write(struct trace_later *l, struct spool *s)
{
    uint32_t n;
    write_names(l, s);
    for (uint32_t block = 0; later_sums_read(block, l->rows, &n); block++) {
        if (!map_memory_grow(&l->blocks, &l->blocks_bytes, block + 1, sizeof *l->blocks))
            return;
        uint64_t calls = 0;
        for (uint32_t i = 0; i < n; i++)
            calls += l->rows[i].calls;
        struct trace_later_block *b = &l->blocks[block];
        if (calls == b->calls)
            continue;
        struct spool_later head = {.n = n};
        if (!spool_replace(s, &b->place, SPOOL_LATER, sizeof head + sizeof l->rows, &head,
                           sizeof head, l->rows, n * sizeof *l->rows))
            b->calls = calls;
    }
}
