/* call_rows.c - from the turns of kept calls (kept_calls.h) to rows of the table `call`.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL.  Functions return 0, -ENOMEM, -EINVAL where
 * there are more rows than ids, or -EOVERFLOW where a time has more than 63 bits.
 */
#include "passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kept_calls.h"

typedef __int128 int128;

/* A turn, on the way to its row. */
struct placed {
    uint64_t since, until;
    size_t at; /* in the bytes: what ended first comes first */
};

/* What begins first, and lies around what begins with it, comes first. */
static int compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->since != y->since)
        return x->since < y->since ? -1 : 1;
    if (x->until != y->until)
        return x->until > y->until ? -1 : 1;
    return (x->at < y->at) - (x->at > y->at);
}

static int time_ns(const struct call_clock *c, uint64_t ticks, int64_t *ns)
{
    int128 span = (int128)ticks - c->ticks, product = span * c->multiply;
    int128 floor = product / (int128)c->divide - (product % (int128)c->divide < 0);
    int128 time = floor + c->ns;
    *ns = (int64_t)time;
    return time < INT64_MIN || time > INT64_MAX ? -EOVERFLOW : 0;
}

/* Those that have a node, in order; returns how many. */
static size_t find_turns(const unsigned char *turns, size_t bytes, size_t n_nodes,
                         struct placed *found, struct call_attributes *attributes,
                         size_t *n_damaged)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes;) {
        struct call_turn t;
        if (bytes - at < sizeof t || (memcpy(&t, turns + at, sizeof t), 0) ||
            t.more > bytes - at - sizeof t) {
            ++*n_damaged;
            break;
        }
        if (t.flags & CALL_ATTRIBUTES) {
            attributes->serial[attributes->n] = t.serial;
            attributes->at[attributes->n] = (uint32_t)(at + sizeof t);
            attributes->length[attributes->n++] = t.more;
        } else if (t.node && t.node <= n_nodes && t.since <= t.until &&
                   (!(t.flags & CALL_USAGE) || t.more >= sizeof(struct call_usage))) {
            found[n++] = (struct placed){t.since, t.until, at};
        } else {
            ++*n_damaged;
        }
        at += sizeof t + ((t.more + 7ull) & ~7ull);
    }
    qsort(found, n, sizeof *found, compare);
    return n;
}

static int is_whole(const struct call_turn *t)
{
    return (t->flags & (CALL_FIRST | CALL_ENDED)) == (CALL_FIRST | CALL_ENDED);
}

static int put_row(const struct call_turn *t, size_t i, uint32_t row, uint32_t around,
                   const uint32_t *node, const struct call_clock *clock, struct call_columns *c)
{
    c->row[i] = row;
    c->serial[i] = t->serial;
    c->node[i] = node[t->node - 1];
    c->info[i] = t->flags | (uint32_t)t->weight_bits << 16;
    c->around[i] = around;
    int r = time_ns(clock, t->since, &c->begin_ns[i]);
    return r ? r : time_ns(clock, t->until, &c->end_ns[i]);
}

int call_rows_of(const unsigned char *turns, size_t bytes, const uint32_t *node, size_t n_nodes,
                 const struct call_clock *clock, struct call_columns *columns,
                 struct call_attributes *attributes, struct usage_places *usage, size_t *n_damaged)
{
    size_t room = CALL_ROWS_ROOM(bytes);
    *n_damaged = attributes->n = usage->n = columns->n = columns->n_whole = 0;
    if (bytes > UINT32_MAX || !clock->divide)
        return -EINVAL;
    struct placed *found = malloc((room + 1) * sizeof *found);
    uint32_t *open = malloc((room + 1) * sizeof *open); /* rows around the one that comes */
    if (!found || !open) {
        free(found);
        free(open);
        return -ENOMEM;
    }
    size_t n = find_turns(turns, bytes, n_nodes, found, attributes, n_damaged);
    size_t depth = 0, whole = 0, other = 0;
    for (size_t i = 0; i < n; i++) {
        struct call_turn t;
        memcpy(&t, turns + found[i].at, sizeof t);
        columns->n_whole += is_whole(&t) != 0;
    }
    int r = 0;
    for (size_t i = 0; i < n && !r; i++) {
        struct call_turn t;
        memcpy(&t, turns + found[i].at, sizeof t);
        while (depth && found[open[depth - 1] - 1].until < t.until)
            depth--;
        size_t to = is_whole(&t) ? whole++ : columns->n_whole + other++;
        r = put_row(&t, to, (uint32_t)i + 1, depth ? open[depth - 1] : 0, node, clock, columns);
        open[depth++] = (uint32_t)i + 1;
        if (t.flags & CALL_USAGE) {
            usage->row[usage->n] = (uint32_t)i + 1;
            usage->at[usage->n++] = (uint32_t)(found[i].at + sizeof t);
        }
    }
    columns->n = n;
    free(found);
    free(open);
    return r;
}

int call_usage_of(const unsigned char *turns, size_t bytes, const uint32_t *at, size_t n,
                  const struct usage_columns *columns)
{
    for (size_t i = 0; i < n; i++) {
        struct call_usage u;
        if (at[i] > bytes || bytes - at[i] < sizeof u)
            return -EINVAL;
        memcpy(&u, turns + at[i], sizeof u);
        bool cpu = u.kinds & USAGE_CPU;
        columns->cpu_begin_ns[i] = cpu ? (int64_t)u.begin_ns : -1;
        columns->cpu_end_ns[i] = cpu ? (int64_t)(u.begin_ns + u.cpu_ns) : -1;
        columns->cpu_ns[i] = cpu ? (int64_t)u.cpu_ns : -1;
        columns->user_ns[i] = cpu ? (int64_t)u.user_ns : -1;
        columns->system_ns[i] = cpu ? (int64_t)u.system_ns : -1;
        columns->process_ns[i] = u.kinds & USAGE_PROCESS ? (int64_t)u.process_ns : -1;
        columns->minor_faults[i] = cpu ? (int64_t)u.minor_faults : -1;
        columns->major_faults[i] = cpu ? (int64_t)u.major_faults : -1;
        columns->voluntary[i] = cpu ? (int64_t)u.voluntary : -1;
        columns->involuntary[i] = cpu ? (int64_t)u.involuntary : -1;
        columns->resident_begin[i] = (int64_t)u.resident_begin;
        columns->resident_end[i] = (int64_t)u.resident_end;
    }
    return 0;
}
