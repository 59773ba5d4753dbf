/* exact_fold.c - the trees of threads that are one row (thread_folds.c), as one: counters of nodes with one path are added.
 *
 * Of a thread that lives its counters are added anew each round, of one that has ended once, when its tree goes.
 *
 * Context: as exact_drain.h.
 */
#include "exact_parts.h"

#include <string.h>

#include "call_tree.h"
#include "drain_parts.h"
#include "frame.h"
#include "map.h"
#include "spool.h"
#include "stacks.h"

#define CHUNK 1024       /* rows in one record */
#define FIRST_MAX 16384u /* nodes: the tree is made anew where there are more */

/* Durations of a node's calls, of all threads that have ended. */
struct fold_times {
    struct spool_call_times head;
    uint32_t bucket[CALLS_BUCKETS];
    struct spool_place place;
    bool is_changed;
};

struct exact_fold {
    uint32_t index;
    struct stacks tree; /* nodes: canonical words */
    uint32_t n_written; /* that the spool has */
    struct spool_exact_count *ended,
        *now; /* by node: of threads that have ended; with those that live */
    size_t ended_bytes, now_bytes;
    uint32_t n_now; /* nodes that `now` is of; 0: it begins anew */
    struct exact_block *blocks;
    size_t blocks_bytes;
    struct fold_times *times;
    size_t times_bytes;
    uint32_t n_times;
    struct map times_of; /* node -> place in `times`, from 1 */
    uint64_t n_lost;
    struct {
        struct spool_exact_nodes head;
        uint32_t parent[CHUNK];
    } part;
};

struct exact_fold *exact_fold_new(struct spool *s, struct thread_fold *of, uint32_t index)
{
    struct exact_fold *f = map_memory(sizeof *f);
    if (!f || stacks_init(&f->tree, FIRST_MAX)) {
        map_memory_free(f, sizeof *f);
        return NULL;
    }
    f->index = index;
    of->trace = f;
    struct spool_exact_thread record = {index, of->index};
    spool_append(s, SPOOL_EXACT_THREAD, &record, sizeof record, NULL, 0);
    return f;
}

void exact_fold_free(struct exact_fold *f)
{
    if (!f)
        return;
    stacks_free(&f->tree);
    map_memory_free(f->ended, f->ended_bytes);
    map_memory_free(f->now, f->now_bytes);
    map_memory_free(f->blocks, f->blocks_bytes);
    map_memory_free(f->times, f->times_bytes);
    map_clear(&f->times_of);
    map_memory_free(f, sizeof *f);
}

uint32_t exact_fold_index(const struct exact_fold *f)
{
    return f->index;
}

/* --- the tree ------------------------------------------------------------------------------------ */

/* Room for twice as many nodes, which keep their numbers. */
static void grow(struct exact_fold *f, uint32_t most)
{
    struct stacks larger;
    uint32_t max = f->tree.max < most / 2 ? 2 * f->tree.max : most;
    int full;
    if (f->tree.max >= most || stacks_init(&larger, max))
        return;
    for (uint32_t id = 1; id <= f->tree.n; id++)
        stacks_child(&larger, f->tree.parent[id], f->tree.word[id], &full);
    stacks_free(&f->tree);
    f->tree = larger;
}

void exact_fold_nodes(struct exact_fold *f, struct canonical *w, struct exact *x,
                      struct exact_thread *t, bool last)
{
    uint32_t n = atomic_load_explicit(&t->n, memory_order_acquire);
    if (!map_memory_grow(&t->drained, &t->drained_bytes, (size_t)n + 1, sizeof *t->drained))
        return;
    while (t->n_written < n) {
        const struct exact_node *node = exact_read_node(t, t->n_written + 1);
        uint32_t parent = t->drained[node->parent].fold;
        uint64_t word = canonical_word(w, node->word);
        int full;
        if (!word && !last)
            return;
        if (f->tree.n >= f->tree.max)
            grow(f, x->max_nodes);
        if (!stacks_is_full(&f->tree, parent))
            parent = stacks_child(&f->tree, parent,
                                  word ? word : frame_pseudo(PSEUDO_UNKNOWN_PYTHON), &full);
        t->drained[++t->n_written].fold = parent;
    }
}

uint32_t exact_fold_node(const struct exact_thread *t, uint32_t node)
{
    return node && node <= t->n_written ? t->drained[node].fold : 0;
}

/* --- the counters -------------------------------------------------------------------------------- */

struct adding {
    const struct exact_thread *thread;
    struct spool_exact_count *to;
    uint64_t ticks;
};

static void add_row(void *arg, uint32_t node, const struct spool_exact_count *row)
{
    const struct adding *a = arg;
    struct spool_exact_count *to = &a->to[a->thread->drained[node].fold];
    to->raised += row->raised;
    to->seeded += row->seeded;
    to->calls += row->calls;
    to->resumes += row->resumes;
    to->total_ticks += row->total_ticks;
    if (row->since_ticks && row->since_ticks < a->ticks)
        to->total_ticks += a->ticks - row->since_ticks;
}

/* Those that have ended, with room for all nodes.  False: no memory. */
static bool begin_now(struct exact_fold *f)
{
    size_t n = (size_t)f->tree.n + 1;
    if (!map_memory_grow(&f->ended, &f->ended_bytes, n, sizeof *f->ended) ||
        !map_memory_grow(&f->now, &f->now_bytes, n, sizeof *f->now))
        return false;
    if (!f->n_now)
        memcpy(f->now, f->ended, n * sizeof *f->now);
    else if (n > f->n_now)
        memset(f->now + f->n_now, 0, (n - f->n_now) * sizeof *f->now);
    f->n_now = (uint32_t)n;
    return true;
}

void exact_fold_add(struct exact_fold *f, struct exact_counters *c, struct exact_thread *t,
                    uint64_t ticks)
{
    struct adding a = {t, NULL, ticks};
    if (!begin_now(f))
        return;
    a.to = f->now;
    exact_counters_read(c, t, add_row, &a);
}

static struct fold_times *times_of(struct exact_fold *f, uint32_t node)
{
    uint64_t *place = node ? map_put(&f->times_of, node) : NULL;
    if (!place)
        return NULL;
    if (!*place &&
        map_memory_grow(&f->times, &f->times_bytes, (size_t)f->n_times + 1, sizeof *f->times)) {
        *place = ++f->n_times;
        f->times[*place - 1].head = (struct spool_call_times){.thread = f->index, .node = node};
    }
    return *place ? &f->times[*place - 1] : NULL;
}

static void add_times(struct exact_fold *f, struct exact_thread *t)
{
    const struct call_times *c = atomic_load_explicit(&t->calls.first, memory_order_acquire);
    f->n_lost += atomic_load_explicit(&t->calls.n_lost, memory_order_relaxed);
    for (; c; c = c->next) {
        struct call_times *from = (struct call_times *)c;
        struct fold_times *to = times_of(f, exact_fold_node(t, c->node));
        if (!to)
            continue;
        uint64_t most = atomic_load_explicit(&from->max, memory_order_relaxed);
        to->is_changed = true;
        to->head.n += atomic_load_explicit(&from->n, memory_order_relaxed);
        to->head.sum += atomic_load_explicit(&from->sum, memory_order_relaxed);
        to->head.max = most > to->head.max ? most : to->head.max;
        for (uint32_t i = 0; i < CALLS_BUCKETS; i++)
            to->bucket[i] += atomic_load_explicit(&from->bucket[i], memory_order_relaxed);
    }
}

/* Only of those that made something for which work may be done later. */
static void write_places(const struct exact_fold *f, struct spool *s, const struct exact_thread *t)
{
    struct spool_folded_nodes head = {
        .thread = (uint32_t)t->serial, .index = f->index, .n = t->n_written};
    uint32_t *place = map_memory(((size_t)head.n + 1) * sizeof *place);
    if (!place)
        return;
    for (uint32_t i = 0; i < head.n; i++)
        place[i] = exact_fold_node(t, i + 1);
    spool_append(s, SPOOL_FOLDED_NODES, &head, sizeof head, place,
                 (head.n + (head.n & 1)) * sizeof *place);
    map_memory_free(place, ((size_t)head.n + 1) * sizeof *place);
}

void exact_fold_end(struct exact_fold *f, struct spool *s, struct exact_counters *c,
                    struct exact_thread *t, uint64_t ticks)
{
    struct adding a = {t, NULL, ticks};
    if (t->origins)
        write_places(f, s, t);
    add_times(f, t);
    if (f->n_now) /* a round is being made */
        exact_fold_add(f, c, t, ticks);
    if (!map_memory_grow(&f->ended, &f->ended_bytes, (size_t)f->tree.n + 1, sizeof *f->ended))
        return;
    a.to = f->ended;
    exact_counters_read(c, t, add_row, &a);
}

/* --- the records --------------------------------------------------------------------------------- */

static void write_nodes(struct exact_fold *f, struct spool *s)
{
    while (f->n_written < f->tree.n) {
        uint32_t n = f->tree.n - f->n_written;
        if (n > CHUNK)
            n = CHUNK;
        f->part.head =
            (struct spool_exact_nodes){.thread = f->index, .first_id = f->n_written + 1, .n = n};
        memcpy(f->part.parent, f->tree.parent + f->n_written + 1, n * sizeof *f->part.parent);
        if (n & 1)
            f->part.parent[n] = 0; /* CHUNK is even: there is room */
        spool_append(s, SPOOL_EXACT_NODES, &f->part,
                     sizeof f->part.head + (n + (n & 1)) * sizeof *f->part.parent,
                     f->tree.word + f->n_written + 1, n * sizeof *f->tree.word);
        f->n_written += n;
    }
}

static struct spool_exact_count row_now(void *arg, uint32_t node)
{
    return ((const struct exact_fold *)arg)->now[node];
}

void exact_fold_write(struct exact_fold *f, struct exact_counters *c, struct spool *s)
{
    write_nodes(f, s);
    if (begin_now(f))
        exact_counters_put(c, s, f->index, f->tree.n, &f->blocks, &f->blocks_bytes, row_now, f);
    f->n_now = 0;
    for (uint32_t i = 0; i < f->n_times; i++) {
        struct fold_times *t = &f->times[i];
        if (!t->is_changed)
            continue;
        t->is_changed = false;
        t->head.n_lost = f->n_lost;
        spool_replace(s, &t->place, SPOOL_CALL_TIMES, sizeof t->head + sizeof t->bucket, &t->head,
                      sizeof t->head, t->bucket, sizeof t->bucket);
    }
}
