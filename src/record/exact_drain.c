#include "exact_drain.h"

#include <string.h>

#include "clock.h"
#include "call_tree.h"
#include "exact_parts.h"
#include "frame.h"
#include "map.h"
#include "spool.h"
#include "thread.h"
#include "drain_parts.h"

#define CHUNK 1024 /* rows in one record */

struct exact_drain {
    struct spool *spool;
    struct canonical *words;
    struct exact *exact;
    struct thread_folds *folds;
    uint32_t n_folded; /* threads in the list that are */
    struct exact_log log;
    exact_drain_number *number;
    void *number_arg;
    /* Records being made.  Not on the stack: sampler_pause runs on one of the program's. */
    struct {
        struct spool_exact_nodes head;
        uint32_t parent[CHUNK];
    } part;
    uint64_t nodes[CHUNK];
    struct exact_counters counters;
    struct backward_drain later;
    struct spool_clock clock;
    struct spool_place clock_place;
    uint64_t pair_ns; /* when the last of the clocks' pairs was written */
};

struct exact_drain *exact_drain_new(struct spool *s, struct canonical *w, struct exact *x,
                                    struct thread_folds *folds, uint64_t keep_events_ns,
                                    exact_drain_number *number, void *arg)
{
    struct exact_drain *d = map_memory(sizeof *d);
    if (!d)
        return NULL;
    d->spool = s;
    d->words = w;
    d->exact = x;
    d->folds = folds;
    backward_forget(); /* it reads before the session begins */
    d->log.keep_ns = keep_events_ns;
    d->number = number;
    d->number_arg = arg;
    return d;
}

void exact_drain_free(struct exact_drain *d)
{
    if (!d)
        return;
    exact_log_free(&d->log);
    exact_counters_free(&d->counters);
    backward_drain_free(&d->later);
    map_memory_free(d, sizeof *d);
}

void exact_drain_codes(struct exact_drain *d)
{
    const struct code_record *r;
    while ((r = exact_read_code(d->exact)))
        canonical_take_code(d->words, r);
    const struct spool_code_facts *facts;
    for (size_t bytes; (facts = block_queue_peek(&d->exact->code_facts, &bytes));) {
        size_t length = facts->length;
        spool_append(d->spool, SPOOL_CODE_FACTS, facts, sizeof *facts, facts + 1,
                     length - sizeof *facts);
        block_queue_release(&d->exact->code_facts, length);
    }
}

#define PAIR_NS 1000000000ull
#define CLOCK_TRIES 5

/* Both clocks at one moment.  Whoever is preempted in between reads two: the try that took least counts. */
static void read_clocks(const struct exact *x, struct spool_clock *c)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        uint64_t before = exact_ticks(x), now = clock_now_ns(), took = exact_ticks(x) - before;
        if (took >= least)
            continue;
        least = took;
        c->ticks = before + took / 2;
        c->time_ns = now;
    }
}

/* Others stamp their events by the time of day, which the system puts right, slowly. */
static void write_clock_pair(const struct exact *x, struct spool *s)
{
    struct spool_clock_pair pair = {0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        uint64_t before = exact_ticks(x), now = clock_read_ns(CLOCK_REALTIME),
                 took = exact_ticks(x) - before;
        if (took >= least)
            continue;
        least = took;
        pair = (struct spool_clock_pair){before + took / 2, now};
    }
    spool_append(s, SPOOL_CLOCK_PAIR, &pair, sizeof pair, NULL, 0);
}

/* One a second; of a run that has just begun more, for it may be short. */
static bool is_time_for_pair(const struct exact_drain *d)
{
    uint64_t runs_ns = d->clock.time_ns - d->clock.first_ns;
    return d->clock.time_ns - d->pair_ns >= (runs_ns / 2 < PAIR_NS ? runs_ns / 2 : PAIR_NS);
}

static void write_clock(struct exact_drain *d)
{
    read_clocks(d->exact, &d->clock);
    if (!d->clock.first_ns) {
        d->clock.first_ticks = d->clock.ticks;
        d->clock.first_ns = d->clock.time_ns;
    }
    spool_replace(d->spool, &d->clock_place, SPOOL_CLOCK, sizeof d->clock, &d->clock,
                  sizeof d->clock, NULL, 0);
}

static void write_exact_nodes(struct exact_drain *d, struct exact_thread *t, bool last)
{
    uint32_t n_known = atomic_load_explicit(&t->n, memory_order_acquire), n;
    do {
        d->part.head = (struct spool_exact_nodes){.thread = t->index, .first_id = t->n_written + 1};
        for (n = 0; n < CHUNK && t->n_written + n < n_known; n++) {
            const struct exact_node *node = exact_read_node(t, t->n_written + n + 1);
            uint64_t word = canonical_word(d->words, node->word);
            if (!word && !last)
                break; /* its code object's record has not come yet */
            d->nodes[n] = word ? word : frame_pseudo(PSEUDO_UNKNOWN_PYTHON);
            d->part.parent[n] = node->parent;
        }
        if (!n)
            return;
        d->part.head.n = n;
        if (n & 1)
            d->part.parent[n] = 0;
        spool_append(d->spool, SPOOL_EXACT_NODES, &d->part,
                     sizeof d->part.head + (n + (n & 1)) * sizeof *d->part.parent, d->nodes,
                     n * sizeof *d->nodes);
        t->n_written += n;
    } while (n == CHUNK);
}

/* Its calls may be logged before its tree is: their nodes have no places then, and they wait. */
static void announce_folded(struct exact_drain *d, struct exact_thread *t)
{
    if (!t->fold->trace)
        exact_fold_new(d->spool, t->fold, (uint32_t)atomic_fetch_add(&d->exact->serials, 1) + 1);
    if (!t->fold->trace) {
        t->index = 0; /* no memory: once more, later */
        return;
    }
    t->index = exact_fold_index(t->fold->trace);
    d->n_folded++;
}

static void announce(struct exact_drain *d, struct exact_thread *t)
{
    if (t->index)
        return;
    uint32_t row = t->fold ? 0 : d->number(d->number_arg, t);
    if (t->fold) {
        announce_folded(d, t);
        return;
    }
    t->index = (uint32_t)t->serial;
    struct spool_exact_thread record = {t->index, row};
    spool_append(d->spool, SPOOL_EXACT_THREAD, &record, sizeof record, t->name, strlen(t->name));
    if (!d->exact->logs)
        return;
    struct spool_thread_handle handle = {t->index, t->handle};
    spool_append(d->spool, SPOOL_THREAD_HANDLE, &handle, sizeof handle, NULL, 0);
}

/* Is there anything to take but trees? */
static bool any_logs(const struct exact_drain *d)
{
    return d->exact->turns & TURNS_LOGGED || atomic_load(&d->exact->open.any);
}

/* Its samples that hang on its nodes may be in its ring as long as the registry has it. */
static bool is_gone(const struct exact_thread *t, const struct registry *r)
{
    return atomic_load(&t->ended) && t->n_written == atomic_load(&t->n) &&
           !registry_find(r, t->tid);
}

/* Takes the thread out if it has gone. */
static bool drop_folded(struct exact_drain *d, const struct registry *r,
                        struct exact_thread *before, struct exact_thread *t, uint64_t ticks)
{
    if (!is_gone(t, r))
        return false;
    exact_log_take(&d->log, d->spool, t);
    if (!t->is_folded)
        exact_fold_end(t->fold->trace, d->spool, &d->counters, t, ticks);
    t->is_folded = true;
    if (!exact_remove_thread(d->exact, before, t))
        return false;
    d->n_folded--;
    return true;
}

void exact_drain_logs(struct exact_drain *d, const struct registry *r)
{
    struct exact_thread *t = atomic_load(&d->exact->threads), *before = NULL, *next;
    bool all = any_logs(d) || d->n_folded;
    for (; t && (all || !t->index); t = next) { /* new ones come first */
        next = t->next;
        announce(d, t);
        if (t->fold && t->index)
            exact_fold_nodes(t->fold->trace, d->words, d->exact, t, false);
        exact_log_take(&d->log, d->spool, t);
        if (!t->fold || !t->index || !drop_folded(d, r, before, t, 0))
            before = t;
    }
    backward_drain_take(d->spool);
}

bool exact_drain_keeps_logs(const struct exact_drain *d)
{
    return any_logs(d);
}

bool exact_drain_needs_rows(const struct exact_drain *d)
{
    return d->exact->logs;
}

bool exact_drain_urgent(const struct exact_drain *d)
{
    const struct exact_thread *t = any_logs(d) ? atomic_load(&d->exact->threads) : NULL;
    while (t && !exact_log_urgent(t))
        t = t->next;
    return t;
}

static void write_thread(struct exact_drain *d, struct exact_thread *t, bool last)
{
    exact_log_take(&d->log, d->spool, t);
    exact_log_write_times(d->spool, t);
    if (last || atomic_load(&t->ended))
        exact_log_end_thread(&d->log, d->spool, t);
    write_exact_nodes(d, t, last);
    exact_counters_write(&d->counters, d->spool, t);
}

static void add_folded(struct exact_drain *d, struct exact_thread *t, bool last)
{
    struct exact_fold *fold = t->fold->trace;
    if (!fold || t->is_folded)
        return;
    exact_fold_nodes(fold, d->words, d->exact, t, last);
    exact_log_take(&d->log, d->spool, t);
    if (!last)
        exact_fold_add(fold, &d->counters, t, d->clock.ticks);
    else
        exact_fold_end(fold, d->spool, &d->counters, t, d->clock.ticks);
    t->is_folded = last;
}

void exact_drain_write(struct exact_drain *d, const struct registry *r, bool last)
{
    struct exact *x = d->exact;
    write_clock(d);
    if (x->logs && (last || is_time_for_pair(d))) {
        write_clock_pair(x, d->spool);
        d->pair_ns = d->clock.time_ns;
    }
    exact_drain_logs(d, r);
    struct exact_thread *t = atomic_load(&x->threads), *before = NULL, *next;
    for (; t; t = next) {
        next = t->next;
        announce(d, t);
        if (t->fold)
            add_folded(d, t, last);
        else
            write_thread(d, t, last);
        bool is_done = !t->fold && is_gone(t, r);
        if (!is_done || !exact_remove_thread(x, before, t))
            before = t;
    }
    for (struct thread_fold *each = d->folds->first; each; each = each->next)
        if (each->trace)
            exact_fold_write(each->trace, &d->counters, d->spool);
    backward_drain_take(d->spool);
    backward_drain_write(&d->later, d->spool);
    if (last)
        exact_log_end(&d->log, d->spool);
}

/* --- backward drain ---------------------------------------------------------------------------- */

/* What was done later for calls (backward_work.h): to the spool.
 *
 * The sums are replaced records of it, a block each, of which those that changed are written.
 *
 * Context: the drain thread; never needs the GIL.
 */

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
