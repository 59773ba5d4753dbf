#include "kept_calls.h"

#include <stddef.h>
#include <string.h>

#define TIMES_BLOCK 32 /* structs in one piece of memory */
#define FIRST_OPEN 256

/* --- a sample ------------------------------------------------------------------------------------- */

/* Is one of 2^`*shift` taken?  Of `most` that are, the next ones are half as many. */
static bool is_sampled(struct open_calls *o, uint32_t *n, uint32_t *shift)
{
    if (!*shift)
        *shift = CALLS_SAMPLE_SHIFT;
    o->random = o->random * 6364136223846793005ull + 1442695040888963407ull;
    if (o->random >> (64 - *shift))
        return false;
    if (++*n == CALLS_SAMPLED && *shift < 32) {
        *n = 0;
        ++*shift;
    }
    return true;
}

/* --- calls that may have several turns ------------------------------------------------------------ */

/* Decides, beyond the bound, whether its turns are kept if it has several. */
static void sample_open(struct open_calls *o, struct open_call *call)
{
    call->weight_bits = o->sample_shift ? o->sample_shift : CALLS_SAMPLE_SHIFT;
    call->is_kept = is_sampled(o, &o->n_sampled, &o->sample_shift);
}

uint32_t open_calls_begin(struct open_calls *o, uint64_t begin, bool partial)
{
    uint32_t at = o->free;
    if (at) {
        o->free = o->call[at].next_free;
    } else {
        if (o->n + 1 >= o->capacity) {
            uint32_t capacity = o->capacity ? 2 * o->capacity : FIRST_OPEN;
            struct open_call *larger = map_memory(capacity * sizeof *larger);
            if (!larger)
                return 0;
            if (o->call)
                memcpy(larger, o->call, o->capacity * sizeof *larger);
            map_memory_free(o->call, o->capacity * sizeof *larger);
            o->call = larger;
            o->capacity = capacity;
        }
        at = ++o->n;
    }
    o->call[at] = (struct open_call){
        .begin = begin, .serial = ++o->serials, .partial = partial, .is_kept = true};
    if (o->n_turns >= o->max_kept)
        sample_open(o, &o->call[at]);
    return at;
}

void open_calls_end(struct open_calls *o, uint32_t call)
{
    o->call[call].next_free = o->free;
    o->free = call;
}

uint32_t open_calls_resume(struct open_calls *o, uint64_t frame)
{
    uint64_t *call = map_get(&o->suspended, frame);
    uint32_t found = call ? (uint32_t)*call : 0;
    if (call)
        *call = 0;
    return found;
}

void open_calls_suspend(struct open_calls *o, uint32_t call, uint64_t frame)
{
    uint64_t *place = map_put(&o->suspended, frame);
    if (place)
        *place = call;
    else
        open_calls_end(o, call);
}

void open_calls_clear(struct open_calls *o)
{
    map_memory_free(o->call, o->capacity * sizeof *o->call);
    map_clear(&o->suspended);
    *o = (struct open_calls){.any = atomic_load(&o->any), .max_kept = o->max_kept};
}

/* --- durations --------------------------------------------------------------------------------------- */

static uint32_t bucket_of(uint64_t ticks)
{
    if (ticks >> CALLS_FIRST == 0)
        return 0;
    uint32_t power = 63u - (uint32_t)__builtin_clzll(ticks);
    uint32_t part = (uint32_t)(ticks >> (power - 3)) & (CALLS_OCTAVE - 1);
    uint32_t bucket = CALLS_OCTAVE * (power - CALLS_FIRST) + part;
    return bucket < CALLS_BUCKETS ? bucket : CALLS_BUCKETS - 1;
}

static uint64_t bucket_begin(uint32_t bucket)
{
    uint64_t octave = 1ull << (CALLS_FIRST + bucket / CALLS_OCTAVE);
    return bucket ? octave + octave / CALLS_OCTAVE * (bucket % CALLS_OCTAVE) : 0;
}

/* The bar goes up to the duration that one in ten, then one in a hundred... was slower than. */
static void raise_bar(struct call_times *t)
{
    uint64_t n = atomic_load_explicit(&t->n, memory_order_relaxed), slower = 0;
    uint64_t wanted = n;
    t->n_slow = 0;
    t->n_raised_bar++;
    for (uint32_t i = 0; i < t->n_raised_bar; i++)
        wanted /= 10;
    for (uint32_t i = CALLS_BUCKETS; i--;) {
        slower += atomic_load_explicit(&t->bucket[i], memory_order_relaxed);
        if (slower > wanted) {
            t->bar = bucket_begin(i + 1 < CALLS_BUCKETS ? i + 1 : i);
            return;
        }
    }
}

static struct call_times *times_of(struct calls *c, uint32_t node)
{
    uint64_t *known = map_put(&c->of_node, node);
    if (!known)
        return NULL;
    if (*known)
        return (struct call_times *)*known;
    if (!c->n_left) {
        /* The first one of a block is the link to the block before. */
        struct call_times *block = map_memory(TIMES_BLOCK * sizeof *block);
        if (!block)
            return NULL;
        block->next = c->memory;
        c->memory = block;
        c->n_left = TIMES_BLOCK - 1;
    }
    struct call_times *t = &c->memory[c->n_left--];
    t->node = node;
    t->next = atomic_load_explicit(&c->first, memory_order_relaxed);
    atomic_store_explicit(&c->first, t, memory_order_release);
    *known = (uint64_t)t;
    return t;
}

static void add(_Atomic uint64_t *to, uint64_t value)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

/* Counts the call. */
static struct call_times *count(struct calls *c, uint32_t node, uint64_t ticks)
{
    struct call_times *t = times_of(c, node);
    if (!t)
        return NULL;
    _Atomic uint32_t *bucket = &t->bucket[bucket_of(ticks)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    add(&t->n, 1);
    add(&t->sum, ticks);
    if (ticks > atomic_load_explicit(&t->max, memory_order_relaxed))
        atomic_store_explicit(&t->max, ticks, memory_order_relaxed);
    return t;
}

/* Is a call of one turn kept, beyond the bound? */
static bool is_slow_or_sampled(struct open_calls *o, struct call_times *t, struct call_turn *turn)
{
    if (!t->n_raised_bar && atomic_load_explicit(&t->n, memory_order_relaxed) > CALLS_AT_ONCE)
        raise_bar(t); /* of a path with fewer, calls that come late are kept as well */
    if (turn->until - turn->since >= t->bar) {
        if (++t->n_slow == CALLS_AT_ONCE)
            raise_bar(t);
        return true;
    }
    turn->weight_bits = (uint16_t)(t->sample_shift ? t->sample_shift : CALLS_SAMPLE_SHIFT);
    return is_sampled(o, &t->n_sampled, &t->sample_shift);
}

static bool put(struct calls *c, struct open_calls *o, const struct call_turn *turn,
                const void *more)
{
    unsigned char *to =
        block_queue_reserve(&c->queue, sizeof *turn + turn->more, CALLS_QUEUE_FIRST);
    if (!to) {
        add(&c->n_lost, 1);
        return false;
    }
    memcpy(to, turn, sizeof *turn);
    if (more)
        memcpy(to + sizeof *turn, more, turn->more);
    block_queue_commit(&c->queue, sizeof *turn + turn->more);
    if (!atomic_load_explicit(&o->any, memory_order_relaxed))
        atomic_store(&o->any, true);
    return true;
}

bool calls_turn(struct calls *c, struct open_calls *o, uint32_t call, struct call_turn *turn,
                const struct call_usage *usage)
{
    struct open_call *open = call ? &o->call[call] : NULL;
    uint64_t begin = open ? open->begin : turn->since;
    bool is_first = !open || !open->has_turns;
    if (turn->until < turn->since)
        turn->until = turn->since;
    if (open) {
        turn->serial = open->serial;
        turn->flags |= open->partial ? CALL_PARTIAL : 0;
        open->has_turns = true;
    }
    turn->flags |= is_first ? CALL_FIRST : 0;
    turn->flags |= usage ? CALL_USAGE : 0;
    turn->more = usage ? sizeof *usage : 0;
    struct call_times *t = NULL;
    if ((turn->flags & (CALL_ENDED | CALL_PARTIAL)) == CALL_ENDED)
        t = count(c, turn->node, turn->until - begin);
    bool keep = true;
    if (!(turn->flags & CALL_ENDED) || !is_first) {
        keep = open && open->is_kept;
        turn->weight_bits = open ? (uint16_t)open->weight_bits : 0;
        o->n_turns += keep && o->n_turns < o->max_kept;
    } else if (o->n_kept < o->max_kept) {
        o->n_kept++;
    } else if (t) {
        keep = is_slow_or_sampled(o, t, turn);
    }
    return keep && put(c, o, turn, usage);
}

void calls_attributes(struct calls *c, struct open_calls *o, uint32_t serial,
                      const unsigned char *fields, uint32_t length)
{
    struct call_turn head = {.serial = serial, .flags = CALL_ATTRIBUTES, .more = length};
    put(c, o, &head, fields);
}

void calls_clear(struct calls *c)
{
    for (struct call_times *block = c->memory, *next; block; block = next) {
        next = block->next;
        map_memory_free(block, TIMES_BLOCK * sizeof *block);
    }
    block_queue_clear(&c->queue);
    map_clear(&c->of_node);
}
