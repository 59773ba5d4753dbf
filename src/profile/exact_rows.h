/* exact_rows.h - from what events counted in a thread's own tree (spool.h) to rows of the table `exact`.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL
 * where a column cannot be what it should be, or -EOVERFLOW where a figure has more than 63 bits.
 */
#ifndef PYH_EXACT_ROWS_H
#define PYH_EXACT_ROWS_H

#include "spool.h"

/* Puts the rows of a SPOOL_EXACT_COUNTERS record, the first of which is node `first`'s, into the n that a thread has.  Rows
 * of zeros tell nothing.  *n_outside is how many others are of no node, or of the root. */
int exact_counts_add(struct spool_exact_count *into, size_t n, uint64_t first,
                     const struct spool_exact_count *rows, size_t n_rows, size_t *n_outside);

/* A thread's own tree: of n rows, of which row 0 is the root.  Rows that are not `kept` (lines, wrappers of decorated
 * functions) have no figures: their time is their callers'. */
struct exact_tree {
    const uint32_t *parent;
    const uint32_t *node; /* the file's: several rows may be one */
    const uint8_t *kept;
    const struct spool_exact_count *count;
    size_t n;
};

/* A tick has multiply / divide nanoseconds.  Killed: what still ran did so up to last_ticks, and a path has at least the time
 * of what is below it. */
struct exact_clock {
    uint64_t multiply, divide;
    uint64_t last_ticks;
    int killed;
};

struct exact_row_columns {
    uint32_t *node; /* ascending */
    int64_t *calls, *resumes, *raised, *seeded, *total_ns, *self_ns;
};

/* The figures of each node that has any; the columns have room for tree->n. */
int exact_rows_of(const struct exact_tree *tree, const struct exact_clock *clock,
                  struct exact_row_columns *rows, size_t *n_rows);

#endif
