#include "drain.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include "calltree.h"
#include "cfi.h"
#include "clock.h"
#include "exact.h"
#include "exact_log.h"
#include "frame.h"
#include "map.h"
#include "modules.h"
#include "records.h"
#include "spool.h"

#define CHUNK 1024     /* samples in one SPOOL_SAMPLES record */
#define FUNCTIONS 2048 /* native words whose functions are sought at once */
#define PATIENCE 50    /* passes that a sample waits for a code record of another ring */

/* The last sample's stack, root first: the next one mostly shares its outer part. */
struct last_stack {
    uint64_t *raw;
    uint32_t *id;
    size_t n;
    uint32_t base;  /* the stack that it begins below */
    uint32_t epoch; /* of the modules that it was read with */
};

struct drain_thread {
    struct last_stack last;
    uint32_t n, n_weights, waited;
    uint64_t first_ns, last_ns;
    uint32_t dt[CHUNK], stack[CHUNK];
    struct spool_weight weights[CHUNK];
};

struct drain {
    struct spool *spool;
    struct modules *modules;
    struct calltree tree;
    uint32_t n_flushed;  /* stacks that the spool has */
    uint32_t epoch;      /* counts unloads: addresses may mean other libraries */
    struct map native;   /* address -> canonical word */
    struct map codes;    /* code id -> code index */
    struct map texts;    /* hash of a code object's contents -> code index */
    struct exact *exact; /* NULL: only samples */
    struct exact_log log;
    uint32_t n_exact_threads;
    uint32_t n_codes;
    uint32_t n_functions;
    struct {
        uint64_t pc;
        struct spool_function function;
    } functions[FUNCTIONS];
    struct spool_function found[FUNCTIONS];
};

struct drain *drain_new(struct spool *s, uint32_t max_nodes)
{
    struct drain *d = map_memory(sizeof *d);
    if (!d)
        return NULL;
    d->spool = s;
    d->modules = modules_new();
    if (d->modules && !calltree_init(&d->tree, max_nodes))
        return d;
    drain_free(d);
    return NULL;
}

void drain_free(struct drain *d)
{
    if (!d)
        return;
    exact_log_free(&d->log);
    modules_free(d->modules);
    if (d->tree.parent)
        calltree_free(&d->tree);
    map_clear(&d->native);
    map_clear(&d->codes);
    map_clear(&d->texts);
    map_memory_free(d, sizeof *d);
}

static size_t last_stack_bytes(const struct thread *t)
{
    return t->limits.max_frames * (sizeof(uint64_t) + sizeof(uint32_t));
}

/* When the thread started, from field 22 of its stat (man 5 proc), and its name. */
static void read_proc(pid_t tid, struct spool_thread *record)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *open_paren = strchr(text, '('), *close_paren = strrchr(text, ')');
    if (!open_paren || !close_paren)
        return;
    size_t length = (size_t)(close_paren - open_paren - 1);
    memcpy(record->comm, open_paren + 1, length < 15 ? length : 15);
    unsigned long long ticks = 0;
    const char *p = close_paren + 1;
    for (int field = 3; *p && field < 22; p++)
        field += *p == ' ' && p > close_paren + 1;
    sscanf(p, "%llu", &ticks);
    record->start_ns = ticks * (1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
}

int drain_add_thread(struct drain *d, struct thread *t, uint64_t first_seen_ns)
{
    struct drain_thread *own = map_memory(sizeof *own + last_stack_bytes(t));
    if (!own)
        return -1;
    own->last.raw = (uint64_t *)(own + 1);
    own->last.id = (uint32_t *)(own->last.raw + t->limits.max_frames);
    t->drain = own;
    struct spool_thread record = {
        .index = t->index, .tid = (uint32_t)t->tid, .first_seen_ns = first_seen_ns};
    read_proc(t->tid, &record);
    t->start_ns = record.start_ns;
    return spool_append(d->spool, SPOOL_THREAD, &record, sizeof record, NULL, 0);
}

/* CPython's characters of 1, 2 or 4 bytes as UTF-8.  `out` holds 4 bytes for each character. */
static size_t to_utf8(unsigned char *out, const unsigned char *text, size_t bytes, uint32_t kind)
{
    unsigned char *o = out;
    for (size_t i = 0; i + kind <= bytes; i += kind) {
        uint32_t c = 0;
        memcpy(&c, text + i, kind);
        if (c < 0x80) {
            *o++ = (unsigned char)c;
        } else if (c < 0x800) {
            *o++ = (unsigned char)(0xc0 | c >> 6);
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            *o++ = (unsigned char)(0xe0 | c >> 12);
            *o++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        } else {
            *o++ = (unsigned char)(0xf0 | (c >> 18 & 7));
            *o++ = (unsigned char)(0x80 | (c >> 12 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        }
    }
    return (size_t)(o - out);
}

static uint64_t hash_bytes(const unsigned char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h | 1;
}

/* A code object was sampled for the first time.  Equal ones (exec in a loop) are one. */
static void take_code(struct drain *d, const struct code_record *r)
{
    size_t content = sizeof *r - offsetof(struct code_record, first_line);
    size_t bytes = r->qualname_bytes + r->file_name_bytes + r->line_table_bytes;
    uint64_t *index = map_put(&d->codes, r->id);
    uint64_t *same =
        map_put(&d->texts, hash_bytes((const unsigned char *)&r->first_line, content + bytes));
    if (!index || !same)
        return;
    if (!*same) {
        unsigned char text[4 * 2 * CODE_TEXT_MAX + CODE_LINE_TABLE_MAX];
        const unsigned char *p = r->text;
        size_t qualname = to_utf8(text, p, r->qualname_bytes, r->qualname_kind);
        p += r->qualname_bytes;
        size_t file_name = to_utf8(text + qualname, p, r->file_name_bytes, r->file_name_kind);
        p += r->file_name_bytes;
        memcpy(text + qualname + file_name, p, r->line_table_bytes);
        struct spool_code code = {.index = ++d->n_codes,
                                  .first_line = r->first_line,
                                  .first_traceable = r->first_traceable,
                                  .qualname_length = (uint32_t)qualname,
                                  .file_name_length = (uint32_t)file_name,
                                  .line_table_length = r->line_table_bytes};
        spool_append(d->spool, SPOOL_CODE, &code, sizeof code, text,
                     qualname + file_name + r->line_table_bytes);
        *same = code.index;
    }
    *index = *same;
}

static int find_functions(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct drain *d = arg;
    (void)info;
    (void)size;
    for (uint32_t i = 0; i < d->n_functions; i++) {
        uint64_t pc = d->functions[i].pc, word = d->functions[i].function.word, start, end;
        if (word >> PYH_ADDR_BITS && cfi_function(pc, &start, &end))
            d->functions[i].function.start = (word & PYH_ADDR_MASK) - (pc - start);
    }
    return 1;
}

/* Inside dl_iterate_phdr no library can go away while its unwind information is read. */
static void flush_functions(struct drain *d)
{
    if (!d->n_functions)
        return;
    dl_iterate_phdr(find_functions, d);
    for (uint32_t i = 0; i < d->n_functions; i++)
        d->found[i] = d->functions[i].function;
    spool_append(d->spool, SPOOL_FUNCTIONS, d->found, d->n_functions * sizeof *d->found, NULL, 0);
    d->n_functions = 0;
}

static uint64_t native_word(struct drain *d, uint64_t pc)
{
    uint64_t *word = map_put(&d->native, pc);
    if (!word)
        return frame_module(0, pc);
    if (!*word) {
        *word = modules_word(d->modules, pc);
        if (d->n_functions == FUNCTIONS)
            flush_functions(d);
        d->functions[d->n_functions].pc = pc;
        d->functions[d->n_functions++].function = (struct spool_function){*word, 0};
    }
    return *word;
}

/* The canonical word; 0 if the code record has not come yet. */
static uint64_t canonical(struct drain *d, uint64_t raw)
{
    switch (frame_tag(raw)) {
    case PYH_TAG_NATIVE:
        return native_word(d, raw);
    case PYH_TAG_C_CALL:
        return frame_c_call(native_word(d, raw & PYH_ADDR_MASK));
    case PYH_TAG_PYTHON: {
        uint64_t *index = map_get(&d->codes, frame_code_id(raw));
        return index && *index ? frame_python(*index, raw & PYH_OFFSET_MASK) : 0;
    }
    }
    return raw;
}

/* Room for at least `n` elements of `size` bytes in `*p`, which is moved. */
static bool make_room(void *p, size_t *bytes, size_t n, size_t size)
{
    void *old = *(void **)p, *larger;
    size_t wanted = *bytes ? *bytes : 4096;
    while (wanted < n * size)
        wanted *= 2;
    if (wanted == *bytes)
        return true;
    if (!(larger = map_memory(wanted)))
        return false;
    if (old)
        memcpy(larger, old, *bytes);
    map_memory_free(old, *bytes);
    *(void **)p = larger;
    *bytes = wanted;
    return true;
}

static bool is_full(const struct drain *d, uint32_t stack)
{
    return d->tree.word[stack] == frame_pseudo(PSEUDO_TREE_FULL);
}

/* The stack of an exact node, where no instruction is known.  False: not yet. */
static bool stack_of_node(struct drain *d, struct exact_thread *t, uint32_t node, bool now,
                          uint32_t *stack)
{
    uint32_t chain[1024], n = 0, target = node;
    *stack = 0;
    if (!make_room(&t->stack_id, &t->stack_id_bytes, (size_t)node + 1, sizeof *t->stack_id))
        return true;
    /* Up to a node that has one, then down again: in pieces, if it is far. */
    while (node && !(*stack = t->stack_id[node])) {
        if (n == sizeof chain / sizeof *chain)
            memmove(chain, chain + 1, --n * sizeof *chain);
        chain[n++] = node;
        node = exact_read_node(t, node)->parent;
    }
    while (n--) {
        uint64_t word = canonical(d, exact_read_node(t, chain[n])->word);
        int full;
        if (!word && !now)
            return false;
        if (!word)
            word = frame_pseudo(PSEUDO_UNKNOWN_PYTHON);
        if (frame_tag(word) == PYH_TAG_PYTHON)
            word |= PYH_OFFSET_UNKNOWN;
        else if (frame_tag(word) == PYH_TAG_C_CALL)
            word ^= frame_c_call(0);
        if (!is_full(d, *stack))
            *stack = calltree_child(&d->tree, *stack, word, &full);
        t->stack_id[chain[n]] = *stack;
    }
    return !target || t->stack_id[target] || stack_of_node(d, t, target, now, stack);
}

/* Interns the sample's stack.  0: not yet. */
static uint32_t intern(struct drain *d, struct last_stack *last, const struct sample_record *r,
                       bool now)
{
    size_t n = r->n_words, i = 0;
    uint32_t id = 0;
    if (r->base_thread && !stack_of_node(d, r->base_thread, (uint32_t)r->base_node, now, &id))
        return 0;
    if (id && is_full(d, id))
        return id;
    if (last->epoch != d->epoch || last->base != id)
        last->n = 0;
    last->epoch = d->epoch;
    last->base = id;
    for (; i < n && i < last->n && last->raw[i] == r->words[n - 1 - i]; i++)
        id = last->id[i];
    for (; i < n; i++) {
        uint64_t raw = r->words[n - 1 - i], word = canonical(d, raw);
        int full;
        if (!word && !now) {
            last->n = i;
            return 0;
        }
        id = calltree_child(&d->tree, id, word ? word : frame_pseudo(PSEUDO_UNKNOWN_PYTHON), &full);
        if (full) {
            last->n = i;
            return id;
        }
        last->raw[i] = raw;
        last->id[i] = id;
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

static void flush_samples(struct drain *d, struct thread *t)
{
    struct drain_thread *own = t->drain;
    if (!own->n)
        return;
    flush_stacks(d);
    struct {
        struct spool_samples head;
        uint32_t data[2 * CHUNK];
    } part = {.head = {.thread = t->index,
                       .n = own->n,
                       .n_weights = own->n_weights,
                       .first_ns = own->first_ns}};
    memcpy(part.data, own->dt, own->n * sizeof *own->dt);
    memcpy(part.data + own->n, own->stack, own->n * sizeof *own->stack);
    spool_append(d->spool, SPOOL_SAMPLES, &part, sizeof part.head + 2 * own->n * sizeof *own->dt,
                 own->weights, own->n_weights * sizeof *own->weights);
    own->n = own->n_weights = 0;
}

static bool take_sample(struct drain *d, struct thread *t, const struct sample_record *r, bool last)
{
    struct drain_thread *own = t->drain;
    uint32_t stack = intern(d, &own->last, r, last || own->waited >= PATIENCE);
    if (!stack)
        return false;
    if (own->n == CHUNK || (own->n && r->time_ns - own->last_ns > UINT32_MAX))
        flush_samples(d, t);
    if (!own->n)
        own->first_ns = own->last_ns = r->time_ns;
    own->dt[own->n] = (uint32_t)(r->time_ns - own->last_ns);
    own->stack[own->n] = stack;
    if (r->weight != 1)
        own->weights[own->n_weights++] = (struct spool_weight){own->n, r->weight};
    own->last_ns = r->time_ns;
    own->n++;
    return true;
}

bool drain_thread(struct drain *d, struct thread *t, bool last)
{
    const struct ring_record *r;
    bool moved = false;
    while ((r = ring_peek(&t->ring))) {
        if (r->type == RING_CODE) {
            take_code(d, (const struct code_record *)r);
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
    const struct code_record *r;
    while (d->exact && (r = exact_read_code(d->exact)))
        take_code(d, r);
    if (!modules_update(d->modules, d->spool))
        return false;
    map_clear(&d->native);
    d->epoch++;
    return true;
}

void drain_end(struct drain *d)
{
    flush_functions(d);
    modules_drop_ended(d->modules);
}

void drain_snapshot(struct drain *d, struct thread *t, uint64_t cpu_ns, uint64_t missed_weight)
{
    struct thread_counters *c = &t->counters;
    struct spool_counters record = {.thread = t->index,
                                    .n_losses = N_LOSSES,
                                    .time_ns = clock_now_ns(),
                                    .signals = counter_get(&c->signals),
                                    .recorded = counter_get(&c->recorded),
                                    .recorded_weight = counter_get(&c->recorded_weight),
                                    .missed_weight = missed_weight,
                                    .cpu_ns = cpu_ns};
    for (int i = 0; i < N_LOSSES; i++) {
        record.lost[i] = counter_get(&c->lost[i]);
        record.lost_weight[i] = counter_get(&c->lost_weight[i]);
    }
    for (int i = 0; i < SPOOL_HISTOGRAM; i++)
        record.handler_ns[i] = (uint32_t)counter_get(&c->handler_ns[i]);
    flush_samples(d, t);
    spool_append(d->spool, SPOOL_COUNTERS, &record, sizeof record, NULL, 0);
}

/* --- the exact half ------------------------------------------------------------------------------ */

void drain_set_exact(struct drain *d, struct exact *x, uint64_t keep_events_ns)
{
    d->exact = x;
    d->log.keep_ns = keep_events_ns;
}

static void write_clock(struct drain *d)
{
    struct spool_clock now = {exact_ticks(d->exact), clock_now_ns()};
    spool_append(d->spool, SPOOL_CLOCK, &now, sizeof now, NULL, 0);
}

static void write_exact_nodes(struct drain *d, struct exact_thread *t, bool last)
{
    struct {
        struct spool_exact_nodes head;
        uint32_t parent[CHUNK];
    } part;
    uint64_t words[CHUNK];
    uint32_t n_known = atomic_load_explicit(&t->n, memory_order_acquire), n;
    do {
        part.head = (struct spool_exact_nodes){.thread = t->index, .first_id = t->n_written + 1};
        for (n = 0; n < CHUNK && t->n_written + n < n_known; n++) {
            const struct exact_node *node = exact_read_node(t, t->n_written + n + 1);
            uint64_t word = canonical(d, node->word);
            if (!word && !last)
                break; /* its code object's record has not come yet */
            words[n] = word ? word : frame_pseudo(PSEUDO_UNKNOWN_PYTHON);
            part.parent[n] = node->parent;
        }
        if (!n)
            return;
        part.head.n = n;
        if (n & 1)
            part.parent[n] = 0;
        spool_append(d->spool, SPOOL_EXACT_NODES, &part,
                     sizeof part.head + (n + (n & 1)) * sizeof *part.parent, words,
                     n * sizeof *words);
        t->n_written += n;
    } while (n == CHUNK);
}

static void write_exact_counters(struct drain *d, struct exact_thread *t)
{
    struct spool_exact_count counts[CHUNK];
    struct spool_exact_counters head = {.thread = t->index};
    if (!make_room(&t->written, &t->written_bytes, (size_t)t->n_written + 1, sizeof *t->written))
        return;
    for (uint32_t id = 1; id <= t->n_written; id++) {
        struct exact_node *n = (struct exact_node *)exact_read_node(t, id);
        struct spool_exact_count c = {
            .node = id,
            .raised = atomic_load_explicit(&n->raised, memory_order_relaxed),
            .calls = atomic_load_explicit(&n->calls, memory_order_relaxed),
            .resumes = atomic_load_explicit(&n->resumes, memory_order_relaxed),
            .total_ticks = atomic_load_explicit(&n->total_ticks, memory_order_relaxed),
            .seeded = atomic_load_explicit(&n->seeded, memory_order_relaxed)};
        uint64_t digest = c.calls + c.resumes + c.seeded + c.raised + (c.total_ticks << 1);
        if (digest == t->written[id])
            continue;
        t->written[id] = digest;
        counts[head.n++] = c;
        if (head.n == CHUNK) {
            spool_append(d->spool, SPOOL_EXACT_COUNTERS, &head, sizeof head, counts,
                         head.n * sizeof *counts);
            head.n = 0;
        }
    }
    if (head.n)
        spool_append(d->spool, SPOOL_EXACT_COUNTERS, &head, sizeof head, counts,
                     head.n * sizeof *counts);
}

static void announce(struct drain *d, struct exact_thread *t)
{
    if (t->index)
        return;
    t->index = ++d->n_exact_threads;
    struct spool_exact_thread record = {
        .index = t->index, .tid = (uint32_t)t->tid, .first_ns = t->first_ns};
    memcpy(record.comm, t->comm, sizeof record.comm);
    spool_append(d->spool, SPOOL_EXACT_THREAD, &record, sizeof record, NULL, 0);
}

void drain_logs(struct drain *d)
{
    struct exact_thread *t = d->exact ? atomic_load(&d->exact->threads) : NULL;
    for (; t; t = t->next) {
        announce(d, t);
        exact_log_take(&d->log, d->spool, t);
    }
}

bool drain_logs_urgent(const struct drain *d)
{
    const struct exact_thread *t = d->exact ? atomic_load(&d->exact->threads) : NULL;
    while (t && !exact_log_urgent(t))
        t = t->next;
    return t;
}

void drain_exact(struct drain *d, const struct registry *r, bool last)
{
    struct exact *x = d->exact;
    if (!x)
        return;
    write_clock(d);
    struct exact_thread *t = atomic_load(&x->threads), *next;
    for (; t; t = next) {
        next = t->next;
        bool ended = atomic_load(&t->ended);
        announce(d, t);
        exact_log_take(&d->log, d->spool, t);
        exact_log_write_times(d->spool, t);
        if (last || ended)
            exact_log_end_thread(&d->log, d->spool, t);
        write_exact_nodes(d, t, last);
        write_exact_counters(d, t);
        /* Samples that hang on its nodes may be in its ring as long as the registry has it. */
        if (ended && t->n_written == atomic_load(&t->n) && !registry_find(r, t->tid))
            exact_remove_thread(x, t);
    }
    if (last)
        exact_log_end(&d->log, d->spool);
}

void drain_remove_thread(struct drain *d, struct thread *t)
{
    (void)d;
    map_memory_free(t->drain, sizeof *t->drain + last_stack_bytes(t));
    t->drain = NULL;
}
