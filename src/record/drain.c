#include "drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stacks.h"
#include "drain_parts.h"
#include "clock.h"
#include "call_tree.h"
#include "exact_drain.h"
#include "frame.h"
#include "map.h"
#include "proc_stat.h"
#include "records.h"
#include "spool.h"
#include "exact_parts.h"

#define CHUNK 1024 /* stacks in one SPOOL_STACKS record */
#define LONG_LIFE_NS 1000000000ull
#define TICKS_OWED 16 /* so many make up for what those before them had */
#define TICKS_MOST 16 /* what one may stand for, in ticks: more is of threads that none can meet */
#define TICKS_FEW 4   /* that many more are thought to have stood for a tick each */
#define PATIENCE 50   /* passes that a sample waits for a code record of another ring */

/* The last sample's stack, root first: the next one mostly shares its outer part. */
struct last_stack {
    struct {
        uint64_t raw;
        uint32_t id;
    } *frame;
    size_t n;
    uint32_t base;  /* the stack that it begins below */
    uint32_t epoch; /* of the modules that it was read with */
};

struct drain_thread {
    struct last_stack last;
    struct caller_stacks callers;
    struct kernel_ticks ticks; /* their places: in `kernel` below */
    uint64_t first_seen_ns;
    bool lives_long;
    uint32_t row;             /* of the spool; 0: it is not decided */
    struct thread_fold *fold; /* the threads that it is one row with; NULL: with none */
    struct thread_fold *name; /* the threads of its name */
    uint32_t waited;
    uint64_t n_repeated, repeated_weight; /* samples that no signal stands behind */
    struct spool_counters counters;       /* as the spool has them */
    struct spool_place counters_place;
    struct sample_chunk samples;
};

struct drain {
    struct spool *spool;
    struct canonical *words;
    struct exact_drain *exact; /* NULL: only samples */
    const struct codes *codes; /* of the exact half */
    struct way_up way;
    struct stacks tree;
    struct stacks kernel;                   /* the kernel's call chains alone, outermost first */
    uint64_t tick_ns, period_ns, shared_ns; /* drain_set_ticks */
    uint64_t n_sharing, given_ns;           /* ticks among which that is shared, and their parts */
    uint64_t tick_carry_ns; /* what the last tick was not given: less than a period */
    uint64_t ticked_ns;
    uint64_t until_ns;  /* samples up to here can be drained */
    uint32_t n_flushed; /* stacks that the spool has */
    uint32_t epoch;     /* counts unloads: addresses may mean other libraries */
    struct sample_segments segments;
    struct thread_folds folds;
    struct sample_scratch
        scratch; /* not on the stack: sampler_pause runs on one of the program's */
};

struct drain *drain_new(struct spool *s, uint32_t max_nodes, uint64_t max_timeline)
{
    struct drain *d = map_memory(sizeof *d);
    if (!d)
        return NULL;
    d->spool = s;
    d->until_ns = UINT64_MAX;
    d->folds.spool = s;
    sample_segments_init(&d->segments, max_timeline);
    d->words = canonical_new(s);
    if (d->words &&
        !stacks_init(&d->tree, max_nodes < SPOOL_STACK_MAX / 2 ? max_nodes : SPOOL_STACK_MAX / 2))
        return d;
    drain_free(d);
    return NULL;
}

void drain_free(struct drain *d)
{
    if (!d)
        return;
    exact_drain_free(d->exact);
    thread_folds_free(&d->folds);
    sample_segments_free(&d->segments);
    map_memory_free(d->way.node, d->way.bytes);
    canonical_free(d->words);
    if (d->tree.parent)
        stacks_free(&d->tree);
    if (d->kernel.parent)
        stacks_free(&d->kernel);
    map_memory_free(d, sizeof *d);
}

static size_t last_stack_bytes(const struct thread *t)
{
    return t->limits.max_frames * sizeof *t->drain->last.frame;
}

/* When the thread started, and its name. */
static void read_proc(pid_t listed, struct spool_thread *record)
{
    char path[64], text[PROC_STAT_BYTES];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", listed);
    if (!proc_stat_read(AT_FDCWD, path, text))
        return;
    char *open_paren = strchr(text, '('), *close_paren = strrchr(text, ')');
    if (!open_paren || !close_paren)
        return;
    size_t length = (size_t)(close_paren - open_paren - 1);
    memset(record->comm, 0, sizeof record->comm);
    memcpy(record->comm, open_paren + 1, length < 15 ? length : 15);
    const char *started = proc_stat_field(text, PROC_STAT_STARTTIME);
    uint64_t ticks = started ? strtoull(started, NULL, 10) : 0;
    uint64_t booted_ns = ticks * (1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
    /* Suspended, or what a namespace of time adds. */
    uint64_t ahead_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_now_ns();
    record->start_ns = (int64_t)(booted_ns - ahead_ns) > 0 ? booted_ns - ahead_ns : 0;
}

int drain_add_thread(struct thread *t, uint64_t first_seen_ns)
{
    struct drain_thread *own = map_memory(sizeof *own + last_stack_bytes(t));
    if (!own)
        return -1;
    own->last.frame = (void *)(own + 1);
    t->drain = own;
    own->first_seen_ns = first_seen_ns;
    struct spool_thread record = {0};
    memcpy(record.comm, t->comm, sizeof record.comm); /* it may have ended */
    read_proc(t->listed, &record);
    t->start_ns = record.start_ns;
    memcpy(t->comm, record.comm, sizeof t->comm);
    return 0;
}

/* Not the first one, nor where single events are logged, which are of a thread. */
static bool can_be_folded(const struct drain *d, pid_t tid)
{
    return tid != getpid() && !(d->exact && exact_drain_needs_rows(d->exact));
}

static void write_threading_name(struct drain *d, uint32_t row, const char *name)
{
    struct spool_thread_name head = {row, NAME_THREADING};
    if (*name)
        spool_append(d->spool, SPOOL_THREAD_NAME, &head, sizeof head, name, strlen(name));
}

uint32_t drain_row(struct drain *d, struct thread *t, const char *name, struct thread_fold **fold)
{
    struct drain_thread *own = t->drain;
    if (!own->row) {
        struct spool_thread record = {.index = t->index,
                                      .tid = (uint32_t)t->tid,
                                      .start_ns = t->start_ns,
                                      .first_seen_ns = own->first_seen_ns};
        memcpy(record.comm, t->comm, sizeof record.comm);
        const char *known = *name ? name : *t->name ? t->name : t->comm;
        own->fold = thread_folds_row(&d->folds, record, known,
                                     can_be_folded(d, t->tid) && !own->lives_long, &own->name);
        own->row = own->fold ? own->fold->index : t->index;
        if (!own->fold)
            write_threading_name(d, own->row, t->name);
    }
    *fold = own->fold;
    return own->row;
}

uint32_t drain_row_of_unseen(struct drain *d, const struct spool_thread *record, const char *name,
                             struct thread_fold **fold)
{
    struct thread_fold *of;
    *fold = thread_folds_row(&d->folds, *record, *name ? name : record->comm,
                             can_be_folded(d, (pid_t)record->tid), &of);
    if (!*fold && of)
        thread_folds_end(&d->folds, of);
    return *fold ? (*fold)->index : record->index;
}

bool drain_has_own_row(const struct thread *t)
{
    return t->drain->row && !t->drain->fold;
}

void drain_folds(struct drain *d)
{
    thread_folds_write(&d->folds);
}

void drain_settle(struct drain *d, struct thread *t)
{
    struct thread_fold *fold;
    drain_row(d, t, "", &fold);
}

/* Of one that only the kernel has named, as it did all others, it is seen first whether it lives for long: then it has a row of
 * its own.  Up to a second of its samples waits for that. */
static bool decides(struct drain *d, struct thread *t)
{
    struct drain_thread *own = t->drain;
    if (own->row)
        return true;
    if (!*t->name && thread_folds_are_many(&d->folds, t->comm)) {
        if (clock_now_ns() - own->first_seen_ns < LONG_LIFE_NS)
            return false;
        own->lives_long = true;
    }
    drain_settle(d, t);
    return true;
}

/* Interns the sample's stack.  0: not yet. */
static uint32_t intern(struct drain *d, struct drain_thread *own, const struct sample_record *r,
                       bool now)
{
    struct last_stack *last = &own->last;
    size_t n = r->n_words, i = 0;
    uint32_t id = 0;
    if (last->epoch != d->epoch)
        caller_stacks_forget(&own->callers);
    if (r->base_thread &&
        !caller_stacks_find(&own->callers, &d->way, &d->tree, d->words, d->codes, r, now, &id))
        return 0;
    if (id && stacks_is_full(&d->tree, id))
        return id;
    if (last->epoch != d->epoch || last->base != id)
        last->n = 0;
    last->epoch = d->epoch;
    last->base = id;
    for (; i < n && i < last->n && last->frame[i].raw == r->words[n - 1 - i]; i++)
        id = last->frame[i].id;
    for (; i < n; i++) {
        uint64_t raw = r->words[n - 1 - i], word = canonical_word(d->words, raw);
        int full;
        if (!word && !now) {
            last->n = i;
            return 0;
        }
        id = stacks_child(&d->tree, id, word ? word : frame_pseudo(PSEUDO_UNKNOWN_PYTHON), &full);
        if (full) {
            last->n = i;
            return id;
        }
        last->frame[i].raw = raw;
        last->frame[i].id = id;
    }
    last->n = n;
    return id;
}

static void flush_stacks(struct drain *d)
{
    while (d->n_flushed < d->tree.n) {
        struct {
            struct spool_stacks head;
            uint32_t parent[CHUNK];
        } part;
        uint32_t n = d->tree.n - d->n_flushed;
        if (n > CHUNK)
            n = CHUNK;
        part.head = (struct spool_stacks){d->n_flushed + 1, n};
        memcpy(part.parent, d->tree.parent + d->n_flushed + 1, n * sizeof *part.parent);
        if (n & 1)
            part.parent[n] = 0; /* CHUNK is even: there is room */
        spool_append(d->spool, SPOOL_STACKS, &part,
                     sizeof part.head + (n + (n & 1)) * sizeof *part.parent,
                     d->tree.word + d->n_flushed + 1, n * sizeof *d->tree.word);
        d->n_flushed += n;
    }
}

bool drain_has_samples(const struct thread *t)
{
    return t->drain->samples.n;
}

/* After the stacks that they are of. */
static void write_samples(struct drain *d, struct thread *t)
{
    if (!t->drain->samples.n)
        return;
    flush_stacks(d);
    sample_chunk_write(&t->drain->samples, d->spool, &d->segments, t->drain->row, &d->scratch);
}

static void put_sample(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight,
                       uint32_t place, uint32_t cpu)
{
    if (sample_chunk_is_full(&t->drain->samples, time_ns)) {
        t->drain->lives_long |= !t->drain->row;
        drain_settle(d, t);
        write_samples(d, t);
    }
    sample_chunk_add(&t->drain->samples, time_ns, weight, place, cpu);
}

static void repeat(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight)
{
    const struct sample_chunk *c = &t->drain->samples;
    put_sample(d, t, time_ns, weight, c->last_place, c->last_cpu);
}

void drain_repeat(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight)
{
    repeat(d, t, time_ns, weight);
    t->drain->n_repeated++;
    t->drain->repeated_weight += weight;
}

bool drain_kernel(struct drain *d, struct thread *t, uint64_t time_ns, const uint64_t *chain,
                  size_t n)
{
    uint32_t id = 0;
    int full = 0;
    if (n && !d->kernel.parent && stacks_init(&d->kernel, d->tree.max))
        return false;
    while (n-- && !full) /* return addresses but for the innermost */
        id = stacks_child(&d->kernel, id, frame_kernel(n ? chain[n] - 1 : chain[n]), &full);
    return kernel_ticks_add(&t->drain->ticks, time_ns, id);
}

bool drain_program(struct drain *d, struct thread *t, uint64_t time_ns, uint64_t address)
{
    int full = 0;
    if (!d->kernel.parent && stacks_init(&d->kernel, d->tree.max))
        return false;
    uint64_t word = canonical_word(d->words, frame_native(address));
    return kernel_ticks_add(&t->drain->ticks, time_ns, stacks_child(&d->kernel, 0, word, &full));
}

void drain_samples_until(struct drain *d, uint64_t time_ns)
{
    d->until_ns = time_ns;
}

/* Nothing stands below it. */
static bool is_leaf(const struct drain *d, uint32_t stack)
{
    return stacks_is_full(&d->tree, stack) || d->tree.word[stack] == frame_pseudo(PSEUDO_PYHYBRID);
}

/* `stack` with the kernel's frames below it. */
static uint32_t in_kernel(struct drain *d, uint32_t stack, uint32_t chain)
{
    uint64_t words[256];
    size_t n = 0;
    int full = is_leaf(d, stack);
    for (; chain && n < sizeof words / sizeof *words; chain = d->kernel.parent[chain])
        words[n++] = d->kernel.word[chain];
    while (n-- && !full)
        stack = stacks_child(&d->tree, stack, words[n], &full);
    return stack;
}

static void put_ticks(struct drain *d, struct thread *t, const struct sample_record *r,
                      uint32_t stack, uint32_t state)
{
    struct drain_thread *own = t->drain;
    struct tick_parts parts = kernel_ticks_of_sample(&own->ticks, r->time_ns, r->weight);
    struct tick_part part;
    int full;
    if (!parts.n) {
        if (r->in_kernel && !is_leaf(d, stack))
            stack = stacks_child(&d->tree, stack, frame_pseudo(PSEUDO_KERNEL), &full);
        put_sample(d, t, r->time_ns, r->weight, stack | state, r->cpu);
    }
    while (kernel_ticks_next(&parts, &part)) {
        put_sample(d, t, part.time_ns, part.weight, in_kernel(d, stack, part.chain) | state,
                   r->cpu);
        own->n_repeated += !part.last;
    }
    kernel_ticks_drop(&own->ticks, &parts);
}

void drain_set_ticks(struct drain *d, uint64_t tick_ns, uint64_t period_ns, uint64_t shared_ns)
{
    d->shared_ns = shared_ns;
    d->tick_ns = tick_ns;
    d->period_ns = period_ns;
}

uint64_t drain_ticked_ns(const struct drain *d)
{
    return d->ticked_ns;
}

/* Fewer ticks meet threads than would by chance where processors are short: what waits for one gets it at a tick.  So where
 * it is known what the threads ran, the ticks share that: each has the usual part, and something of what those before
 * it had too little or too much. */
static uint64_t tick_ns(struct drain *d, enum tick_kind kind)
{
    if (kind != TICK_SHARES)
        return d->tick_ns;
    uint64_t usual = (d->shared_ns + TICKS_FEW * d->tick_ns) / (++d->n_sharing + TICKS_FEW);
    int64_t each = (int64_t)usual + (int64_t)(d->shared_ns - d->given_ns) / TICKS_OWED;
    int64_t most = (int64_t)d->tick_ns * TICKS_MOST;
    each = each < 0 ? 0 : each > most ? most : each;
    d->given_ns += (uint64_t)each;
    return (uint64_t)each;
}

static uint32_t tick_weight(struct drain *d, const struct thread *t, enum tick_kind kind)
{
    uint64_t ns = (t->tick_ns ? t->tick_ns : tick_ns(d, kind)) + d->tick_carry_ns,
             weight = ns / d->period_ns;
    d->tick_carry_ns = ns % d->period_ns;
    d->ticked_ns += weight * d->period_ns;
    return (uint32_t)weight;
}

static void put_tick(struct drain *d, struct thread *t, const struct sample_record *r,
                     uint32_t stack, uint32_t state)
{
    int full;
    uint32_t weight = tick_weight(d, t, (enum tick_kind)r->is_tick);
    if (!weight)
        return;
    if (r->in_kernel && !is_leaf(d, stack))
        stack = stacks_child(&d->tree, stack, frame_pseudo(PSEUDO_KERNEL), &full);
    put_sample(d, t, r->time_ns, weight, stack | state, r->cpu);
    t->drain->n_repeated++;
    t->drain->repeated_weight += weight;
}

void drain_blocked(struct drain *d, struct thread *t, uint64_t time_ns, uint32_t weight)
{
    struct drain_thread *own = t->drain;
    struct kernel_ticks *ticks = &own->ticks;
    struct thread_fold *fold;
    uint32_t row = drain_row(d, t, "", &fold), given = 0, cpu = 0;
    int full;
    uint32_t stack = stacks_child(&d->tree, 0, frame_blocked(row), &full);
    for (size_t i = 0; i < ticks->n && weight; i++) {
        uint32_t upto = (uint32_t)((uint64_t)weight * (i + 1) / ticks->n);
        if (upto == given)
            continue;
        put_sample(d, t, ticks->of[i].time_ns, upto - given,
                   in_kernel(d, stack, ticks->of[i].chain), cpu);
        own->n_repeated++;
        given = upto;
    }
    if (!ticks->n) {
        put_sample(d, t, time_ns, weight, stack, cpu);
        own->n_repeated++;
    }
    ticks->n = 0;
    own->repeated_weight += weight;
}

static bool take_sample(struct drain *d, struct thread *t, const struct sample_record *r, bool last)
{
    struct drain_thread *own = t->drain;
    uint32_t stack = intern(d, own, r, last || own->waited >= PATIENCE);
    if (!stack)
        return false;
    uint32_t state = (uint32_t)r->gil << SPOOL_GIL_SHIFT | (r->waits ? SPOOL_WAITS : 0);
    (r->is_tick ? put_tick : put_ticks)(d, t, r, stack, state);
    return true;
}

/* Is it a sample for which ticks in the kernel may still come? */
static bool is_too_new(const struct drain *d, const struct thread *t, const struct ring_record *r)
{
    if (t->ticks_only && !t->has_ended) /* what they stand for is known when that ends */
        return true;
    return r->type == RING_SAMPLE && ((const struct sample_record *)r)->time_ns > d->until_ns;
}

bool drain_thread(struct drain *d, struct thread *t, bool last)
{
    const struct ring_record *r;
    bool moved = false;
    while ((r = ring_peek(&t->ring)) && !is_too_new(d, t, r)) {
        if (r->type == RING_CODE) {
            canonical_take_code(d->words, (const struct code_record *)r);
        } else if (r->type == RING_HOLD) {
            const struct hold_record *hold = (const struct hold_record *)r;
            repeat(d, t, hold->time_ns, hold->weight);
        } else if (!take_sample(d, t, (const struct sample_record *)r, last)) {
            t->drain->waited++;
            return moved;
        }
        t->drain->waited = 0;
        ring_release(&t->ring, r);
        moved = true;
    }
    return moved;
}

bool drain_begin(struct drain *d)
{
    if (d->exact)
        exact_drain_codes(d->exact);
    enum modules_change change = canonical_begin(d->words);
    d->epoch += change == MODULES_WENT;
    return change != MODULES_SAME;
}

void drain_end(struct drain *d)
{
    canonical_end(d->words);
}

void drain_snapshot(struct drain *d, struct thread *t, uint64_t cpu_ns, uint64_t missed_weight)
{
    struct drain_thread *own = t->drain;
    struct thread_counters *c = &t->counters;
    if (!decides(d, t))
        return;
    struct spool_counters record = {.thread = own->row,
                                    .n_losses = N_LOSSES,
                                    .signals = counter_get(&c->signals) + own->n_repeated,
                                    .recorded = counter_get(&c->recorded) + own->n_repeated,
                                    .recorded_weight =
                                        counter_get(&c->recorded_weight) + own->repeated_weight,
                                    .missed_weight = missed_weight,
                                    .cpu_ns = cpu_ns};
    for (int i = 0; i < N_LOSSES; i++) {
        record.lost[i] = counter_get(&c->lost[i]);
        record.lost_weight[i] = counter_get(&c->lost_weight[i]);
    }
    for (int i = 0; i < SPOOL_HISTOGRAM; i++)
        record.handler_ns[i] = (uint32_t)counter_get(&c->handler_ns[i]);
    write_samples(d, t);
    if (own->fold) {
        thread_folds_count(own->fold, &record, &own->counters);
        own->counters = record;
        return;
    }
    if (own->counters_place.at && !memcmp(&own->counters, &record, sizeof record))
        return;
    own->counters = record;
    spool_replace(d->spool, &own->counters_place, SPOOL_COUNTERS, sizeof record, &record,
                  sizeof record, NULL, 0);
}

int drain_set_exact(struct drain *d, struct exact *x, uint64_t keep_events_ns,
                    exact_drain_number *number, void *arg)
{
    d->codes = x->codes;
    d->exact = exact_drain_new(d->spool, d->words, x, &d->folds, keep_events_ns, number, arg);
    return d->exact ? 0 : -1;
}

void drain_logs(struct drain *d, const struct registry *r)
{
    if (d->exact)
        exact_drain_logs(d->exact, r);
}

bool drain_keeps_logs(const struct drain *d)
{
    return d->exact && exact_drain_keeps_logs(d->exact);
}

bool drain_logs_urgent(const struct drain *d)
{
    return d->exact && exact_drain_urgent(d->exact);
}

void drain_exact(struct drain *d, const struct registry *r, bool last)
{
    if (d->exact)
        exact_drain_write(d->exact, r, last);
}

void drain_merge(struct drain *d)
{
    sample_segments_merge(&d->segments, d->spool);
}

uint64_t drain_function(const struct drain *d, uint64_t start)
{
    return canonical_function(d->words, start);
}

void drain_remove_thread(struct drain *d, struct thread *t)
{
    if (t->drain->name && drain_has_own_row(t))
        thread_folds_end(&d->folds, t->drain->name);
    kernel_ticks_free(&t->drain->ticks);
    caller_stacks_free(&t->drain->callers);
    map_memory_free(t->drain, sizeof *t->drain + last_stack_bytes(t));
    t->drain = NULL;
}
