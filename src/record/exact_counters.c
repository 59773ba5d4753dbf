/* exact_counters.c - the counters of the exact half's nodes, and which activations run: to the spool.
 *
 * Nodes' counters are replaced records of the spool, 64 to 1,024 nodes each, of which those that changed
 * are written.  The threads run meanwhile: each node's figures are of one moment, in which an activation
 * either runs or is counted.
 *
 * Context: the drain thread; never needs the GIL.
 */
#include "exact_parts.h"

#include "call_tree.h"
#include "map.h"

#define BLOCK_MIN 64
#define BLOCKS_MIN 6 /* of 64, 64, 128 … nodes, up to EXACT_BLOCK_MAX */

struct exact_block {
    struct spool_place place;
    uint64_t digest; /* of the rows in the spool */
};
_Static_assert(BLOCKS_MIN * sizeof(struct exact_block) <= EXACT_FIRST_BLOCKS * sizeof(uint64_t),
               "those of a small tree lie in the thread's first mapping");

/* A Python function or region that runs, or a C function that one waits for. */
struct exact_activation {
    const struct exact_node *node;
    uint64_t since;
    uint32_t at; /* in the shadow stack */
    bool in_c;
};

void exact_counters_free(struct exact_counters *c)
{
    map_memory_free(c->running, c->running_bytes);
}

/* --- what runs: the thread pushes and pops meanwhile (exact_set_depth, exact_set_flags) ---------------- */

#define READ(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

static bool same(const struct exact_activation *a, const struct exact_node *node, uint64_t since)
{
    return a->node == node && a->since == since;
}

/* Has it been running up to now, from when it was found on? */
static bool still_runs(const struct exact_thread *t, const struct exact_activation *a)
{
    if (READ(t->depth) <= a->at)
        return false;
    const struct exact_frame *f = &READ(t->stack)[a->at];
    if (!a->in_c)
        return same(a, READ(f->node), READ(f->since));
    if (!(READ(f->flags) & EXACT_IN_C))
        return false;
    const struct exact_c_call *c = &READ(t->c_calls)[a->at];
    return same(a, READ(c->node), READ(c->since));
}

/* Marks its node; one that was just being written is found out by still_runs. */
static uint32_t add_running(struct exact_counters *c, struct exact_thread *t, uint32_t n,
                            struct exact_activation a)
{
    if (!a.node || !a.since || !a.node->id || a.node->id > t->n_written)
        return n;
    c->running[n] = a;
    t->drained[a.node->id].open = n + 1;
    return n + 1;
}

/* Finds what runs.  Of a thread that has ended nothing does, whatever is left in its stack. */
static uint32_t find_running(struct exact_counters *c, struct exact_thread *t)
{
    uint32_t depth = atomic_load(&t->ended) ? 0 : READ(t->depth), n = 0;
    if (!map_memory_grow(&c->running, &c->running_bytes, 2 * (size_t)depth, sizeof *c->running))
        return 0;
    const struct exact_frame *stack = READ(t->stack);
    const struct exact_c_call *c_calls = READ(t->c_calls);
    for (uint32_t i = 0; i < depth; i++) {
        uint64_t flags = READ(stack[i].flags);
        if (flags & EXACT_RECORDED)
            n = add_running(c, t, n,
                            (struct exact_activation){.node = READ(stack[i].node),
                                                      .since = READ(stack[i].since),
                                                      .at = i});
        if (flags & EXACT_IN_C && c_calls)
            n = add_running(c, t, n,
                            (struct exact_activation){.node = READ(c_calls[i].node),
                                                      .since = READ(c_calls[i].since),
                                                      .at = i,
                                                      .in_c = true});
    }
    return n;
}

/* --- the records ------------------------------------------------------------------------------------- */

static struct spool_exact_count counts_of(const struct exact_node *node)
{
    struct exact_node *n = (struct exact_node *)node;
    return (struct spool_exact_count){
        .raised = atomic_load_explicit(&n->raised, memory_order_acquire),
        .seeded = atomic_load_explicit(&n->seeded, memory_order_acquire),
        .calls = atomic_load_explicit(&n->calls, memory_order_acquire),
        .resumes = atomic_load_explicit(&n->resumes, memory_order_acquire),
        .total_ticks = atomic_load_explicit(&n->total_ticks, memory_order_acquire)};
}

static struct spool_exact_count row_of(const struct exact_counters *c, const struct exact_thread *t,
                                       uint32_t id)
{
    const struct exact_node *node = exact_read_node(t, id);
    struct spool_exact_count row = counts_of(node);
    uint32_t open = t->drained[id].open;
    if (!open)
        return row;
    if (!still_runs(t, &c->running[open - 1]))
        return counts_of(node); /* now it is counted */
    row.since_ticks = c->running[open - 1].since;
    return row;
}

struct counted_thread {
    const struct exact_counters *counters;
    const struct exact_thread *thread;
};

static struct spool_exact_count row_of_thread(void *arg, uint32_t id)
{
    const struct counted_thread *of = arg;
    return row_of(of->counters, of->thread, id);
}

static void write_block(struct exact_counters *c, struct spool *s, struct exact_block *b,
                        struct spool_exact_counters head, uint32_t capacity,
                        exact_counters_row *row, void *arg)
{
    uint64_t digest = head.n;
    for (uint32_t i = 0; i < head.n; i++) {
        struct spool_exact_count r = row(arg, head.first_id + i);
        c->rows[i] = r;
        digest += r.raised + r.seeded + r.calls + r.resumes + r.total_ticks +
                  r.since_ticks * 0x9e3779b97f4a7c15ull;
    }
    if (digest == b->digest)
        return;
    b->digest = digest;
    spool_replace(s, &b->place, SPOOL_EXACT_COUNTERS, sizeof head + capacity * sizeof *c->rows,
                  &head, sizeof head, c->rows, head.n * sizeof *c->rows);
}

void exact_counters_put(struct exact_counters *c, struct spool *s, uint32_t index, uint32_t n,
                        struct exact_block **blocks, size_t *blocks_bytes, exact_counters_row *row,
                        void *arg)
{
    size_t n_blocks = BLOCKS_MIN + n / EXACT_BLOCK_MAX;
    if (!map_memory_grow(blocks, blocks_bytes, n_blocks, sizeof **blocks))
        return;
    uint32_t capacity = BLOCK_MIN;
    struct exact_block *b = *blocks;
    for (uint32_t first = 1; first <= n; first += capacity, b++) {
        if (first > 1)
            capacity = first - 1 < EXACT_BLOCK_MAX ? first - 1 : EXACT_BLOCK_MAX;
        uint32_t left = n - first + 1;
        struct spool_exact_counters head = {
            .thread = index, .first_id = first, .n = left < capacity ? left : capacity};
        write_block(c, s, b, head, capacity, row, arg);
    }
}

/* What runs is marked in t->drained, until unmark.  False: no memory. */
static bool mark_running(struct exact_counters *c, struct exact_thread *t, uint32_t *n_running)
{
    if (!map_memory_grow(&t->drained, &t->drained_bytes, (size_t)t->n_written + 1,
                         sizeof *t->drained))
        return false;
    *n_running = find_running(c, t);
    return true;
}

static void unmark(struct exact_counters *c, struct exact_thread *t, uint32_t n_running)
{
    while (n_running--)
        t->drained[c->running[n_running].node->id].open = 0;
}

void exact_counters_write(struct exact_counters *c, struct spool *s, struct exact_thread *t)
{
    struct counted_thread of = {c, t};
    uint32_t n_running;
    if (!mark_running(c, t, &n_running))
        return;
    exact_counters_put(c, s, t->index, t->n_written, &t->blocks, &t->blocks_bytes, row_of_thread,
                       &of);
    unmark(c, t, n_running);
}

void exact_counters_read(struct exact_counters *c, struct exact_thread *t,
                         exact_counters_take *take, void *arg)
{
    uint32_t n_running;
    if (!mark_running(c, t, &n_running))
        return;
    for (uint32_t id = 1; id <= t->n_written; id++) {
        struct spool_exact_count row = row_of(c, t, id);
        take(arg, id, &row);
    }
    unmark(c, t, n_running);
}
