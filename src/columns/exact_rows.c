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

int exact_rows_follow(const uint32_t *parent, const uint64_t *word, size_t n, uint64_t first)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t above;
        uint64_t own;
        memcpy(&above, parent + i, sizeof above); /* a record's payload need not be aligned */
        memcpy(&own, word + i, sizeof own);
        if (!own || above >= first + i)
            return 0;
    }
    return 1;
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

/* Marks also what is above marked rows, and numbers these. */
static int number_kept(const struct exact_tree *t, uint8_t *stays, struct folded_counts *out)
{
    memcpy(stays, t->kept, t->n);
    stays[0] = 1;
    for (size_t i = t->n; i-- > 1;) {
        if (t->parent[i] >= i)
            return -EINVAL;
        stays[t->parent[i]] |= stays[i];
    }
    for (size_t i = 0; i < t->n; i++) {
        if (!stays[i]) {
            out->place[i] = out->place[t->parent[i]];
            continue;
        }
        out->parent[out->n_rows] = i ? out->place[t->parent[i]] : 0;
        out->row[out->n_rows] = (uint32_t)i;
        out->place[i] = (uint32_t)out->n_rows++;
    }
    out->n = out->n_rows;
    return 0;
}

static uint64_t events_of(uint64_t raised, uint64_t seeded)
{
    uint64_t most = UINT32_MAX;
    return (raised < most ? raised : most) | (seeded < most ? seeded : most) << 32;
}

static int add_unsigned(uint64_t *sum, uint64_t value)
{
    return __builtin_add_overflow(*sum, value, sum) || *sum > INT64_MAX;
}

static int add_count(struct folded_counts *out, size_t at, const struct spool_exact_count *c,
                     uint64_t ticks)
{
    uint64_t events = out->events[at];
    out->events[at] = events_of((events & UINT32_MAX) + c->raised, (events >> 32) + c->seeded);
    return add_unsigned(&out->calls[at], c->calls) || add_unsigned(&out->resumes[at], c->resumes) ||
                   add_unsigned(&out->total_ticks[at], ticks)
               ? -EOVERFLOW
               : 0;
}

static void put_count(struct folded_counts *out, size_t at, const struct spool_exact_count *c)
{
    out->events[at] = c ? events_of(c->raised, c->seeded) : 0;
    out->calls[at] = c ? c->calls : 0;
    out->resumes[at] = c ? c->resumes : 0;
    out->total_ticks[at] = c ? c->total_ticks : 0;
    out->since_ticks[at] = c ? c->since_ticks : 0;
}

int exact_rows_fold(const struct exact_tree *t, const uint32_t *number, uint64_t last_ticks,
                    struct folded_counts *out)
{
    out->n_rows = out->n = out->n_numbers = 0;
    uint8_t *stays = malloc(t->n + 1);
    uint32_t *sum = calloc(t->n + 1, sizeof *sum); /* of each row that stays: where that is */
    int r = stays && sum ? number_kept(t, stays, out) : -ENOMEM;
    memset(out->called, 0, t->n);
    for (size_t i = 0; !r && i < t->n; i++) {
        const struct spool_exact_count *c = &t->count[i];
        if (number[i] >= t->n) {
            r = -EINVAL;
            break;
        }
        out->n_numbers = number[i] >= out->n_numbers ? number[i] + 1 : out->n_numbers;
        if (c->calls)
            out->called[number[i]] |= stays[i] ? CALLED_STAYS : CALLED_FOLDED;
        uint32_t place = out->place[i];
        if (stays[i]) {
            put_count(out, place, c);
        } else if (counted(c)) {
            if (!sum[place]) {
                sum[place] = (uint32_t)out->n++;
                out->parent[sum[place]] = place;
                put_count(out, sum[place], NULL);
            }
            uint64_t ticks = c->total_ticks;
            if (c->since_ticks && c->since_ticks < last_ticks &&
                add_unsigned(&ticks, last_ticks - c->since_ticks))
                r = -EOVERFLOW;
            r = r ? r : add_count(out, sum[place], c, stays[t->parent[i]] ? ticks : 0);
        }
    }
    free(stays);
    free(sum);
    return r;
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
