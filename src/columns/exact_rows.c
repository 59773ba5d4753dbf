/* exact_rows.c - from what events counted in a thread's own tree (spool.h) to rows of the table `exact`.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL
 * where a column cannot be what it should be, or -EOVERFLOW where a figure has more than 63 bits.
 */
#include "passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 uint128;

static int counted(const struct spool_exact_count *c)
{
    return c->raised || c->seeded || c->calls || c->resumes || c->total_ticks || c->since_ticks;
}

int exact_counts_add(struct spool_exact_count *into, size_t n, uint64_t first,
                     const struct spool_exact_count *rows, size_t n_rows, size_t *n_outside)
{
    *n_outside = 0;
    for (size_t i = 0; i < n_rows; i++) {
        struct spool_exact_count row;
        memcpy(&row, &rows[i], sizeof row); /* a record's payload need not be aligned */
        if (!counted(&row))
            continue;
        if (first + i > 0 && first + i < n)
            into[first + i] = row;
        else
            ++*n_outside;
    }
    return 0;
}

static int span_ns(const struct spool_exact_count *c, const struct exact_clock *clock, int64_t *ns)
{
    uint128 ticks = c->total_ticks;
    if (c->since_ticks && c->since_ticks < clock->last_ticks)
        ticks += clock->last_ticks - c->since_ticks;
    if (ticks >> 64 || !clock->divide)
        return -EOVERFLOW;
    uint128 span = ticks * clock->multiply / clock->divide;
    *ns = (int64_t)span;
    return span > INT64_MAX ? -EOVERFLOW : 0;
}

/* What one pass needs of each row: its figures, and the nearest row that has some, itself or above (0: none). */
struct times {
    int64_t *total_ns, *below_ns;
    uint32_t *nearest;
};

static int times_of(const struct exact_tree *t, const struct exact_clock *clock, struct times *of)
{
    for (size_t i = 1; i < t->n; i++) {
        if (t->parent[i] >= i)
            return -EINVAL;
        of->nearest[i] = of->nearest[t->parent[i]];
        if (!t->kept[i] || !counted(&t->count[i]))
            continue;
        of->nearest[i] = (uint32_t)i;
        int r = span_ns(&t->count[i], clock, &of->total_ns[i]);
        if (r)
            return r;
    }
    for (size_t i = t->n; i-- > 1;) { /* children before their parents */
        if (of->nearest[i] != i)
            continue;
        if (clock->killed && of->total_ns[i] < of->below_ns[i])
            of->total_ns[i] = of->below_ns[i];
        uint32_t above = of->nearest[t->parent[i]];
        if (above &&
            __builtin_add_overflow(of->below_ns[above], of->total_ns[i], &of->below_ns[above]))
            return -EOVERFLOW;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The rows that have figures, as node << 32 | row, ascending. */
static size_t in_order(const struct exact_tree *t, const uint32_t *nearest, uint64_t *order)
{
    size_t n = 0;
    int sorted = 1;
    for (size_t i = 1; i < t->n; i++) {
        if (nearest[i] != i)
            continue;
        order[n] = (uint64_t)t->node[i] << 32 | i;
        sorted = sorted && (!n || order[n - 1] < order[n]);
        n++;
    }
    if (!sorted)
        qsort(order, n, sizeof *order, compare);
    return n;
}

static int add(int64_t *sum, uint64_t value)
{
    return value > INT64_MAX || __builtin_add_overflow(*sum, (int64_t)value, sum);
}

static int add_rows(const struct exact_tree *t, const struct times *of, const uint64_t *order,
                    size_t n, struct exact_row_columns *rows, size_t *n_rows)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t node = (uint32_t)(order[i] >> 32), row = (uint32_t)order[i];
        const struct spool_exact_count *c = &t->count[row];
        if (!m || rows->node[m - 1] != node) {
            rows->node[m] = node;
            rows->calls[m] = rows->resumes[m] = rows->raised[m] = rows->seeded[m] = 0;
            rows->total_ns[m] = rows->self_ns[m] = 0;
            m++;
        }
        if (add(&rows->calls[m - 1], c->calls) || add(&rows->resumes[m - 1], c->resumes) ||
            add(&rows->raised[m - 1], c->raised) || add(&rows->seeded[m - 1], c->seeded) ||
            add(&rows->total_ns[m - 1], (uint64_t)of->total_ns[row]) ||
            __builtin_add_overflow(rows->self_ns[m - 1], of->total_ns[row] - of->below_ns[row],
                                   &rows->self_ns[m - 1]))
            return -EOVERFLOW;
    }
    *n_rows = m;
    return 0;
}

int exact_rows_of(const struct exact_tree *tree, const struct exact_clock *clock,
                  struct exact_row_columns *rows, size_t *n_rows)
{
    *n_rows = 0;
    if (!tree->n)
        return 0;
    if (tree->n > UINT32_MAX)
        return -EINVAL;
    struct times of = {.total_ns = calloc(tree->n, sizeof *of.total_ns),
                       .below_ns = calloc(tree->n, sizeof *of.below_ns),
                       .nearest = calloc(tree->n, sizeof *of.nearest)};
    uint64_t *order = malloc(tree->n * sizeof *order);
    int r =
        of.total_ns && of.below_ns && of.nearest && order ? times_of(tree, clock, &of) : -ENOMEM;
    if (!r)
        r = add_rows(tree, &of, order, in_order(tree, of.nearest, order), rows, n_rows);
    free(of.total_ns);
    free(of.below_ns);
    free(of.nearest);
    free(order);
    return r;
}
