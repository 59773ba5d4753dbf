/* trace_later.h - what was done later for calls (later.h): to the spool.
 *
 * The sums are replaced records of it, a block each, of which those that changed are written.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_TRACE_LATER_H
#define PYH_TRACE_LATER_H

#include <stddef.h>

#include "later.h"
#include "spool.h"

struct trace_later_block;
struct trace_later {
    struct trace_later_block *blocks;
    size_t blocks_bytes;
    uint32_t n_named; /* names that the spool has */
    struct later_sum rows[LATER_BLOCK];
};

/* The pieces of work that were logged. */
void trace_later_take(struct spool *s);

void trace_later_write(struct trace_later *l, struct spool *s);
void trace_later_free(struct trace_later *l);

#endif
