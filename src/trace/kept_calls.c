#include "kept_calls.h"

#include <stddef.h>
#include <string.h>

#define TIMES_BLOCK 32 /* structs in one piece of memory */
#define FIRST_OPEN 256

/* --- calls that may have several turns ------------------------------------------------------------ */

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
    o->call[at] = (struct open_call){.begin = begin, .serial = ++o->serials, .partial = partial};
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
    *o = (struct open_calls){.any = atomic_load(&o->any)};
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
    t->n_kept = 0;
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

/* Counts the call; is it to be kept? */
static bool count(struct calls *c, const struct call_turn *turn)
{
    struct call_times *t = times_of(c, turn->node);
    if (!t)
        return true;
    uint64_t ticks = turn->until - turn->begin;
    _Atomic uint32_t *bucket = &t->bucket[bucket_of(ticks)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    add(&t->n, 1);
    add(&t->sum, ticks);
    if (ticks > atomic_load_explicit(&t->max, memory_order_relaxed))
        atomic_store_explicit(&t->max, ticks, memory_order_relaxed);
    if (ticks < t->bar)
        return false;
    if (++t->n_kept == CALLS_AT_ONCE)
        raise_bar(t);
    return true;
}

bool calls_turn(struct calls *c, struct open_calls *o, uint32_t call, struct call_turn *turn)
{
    if (!c->ring.data) {
        void *memory = map_memory(CALLS_RING);
        if (!memory)
            return false; /* the next one tries again */
        ring_init(&c->ring, memory, CALLS_RING);
        atomic_store(&o->any, true);
    }
    turn->begin = turn->since;
    if (call) {
        turn->begin = o->call[call].begin;
        turn->serial = o->call[call].serial;
        turn->flags |= o->call[call].partial ? CALL_PARTIAL : 0;
    }
    if (turn->until < turn->begin)
        turn->until = turn->begin;
    bool ended = turn->flags & CALL_ENDED, several = !ended || turn->begin != turn->since;
    bool keep = !ended || turn->flags & CALL_PARTIAL || count(c, turn);
    if (several) /* the turns before were kept: nobody knew how long it would take */
        keep = o->n_turns < CALLS_TURNS_MAX && ++o->n_turns;
    if (!keep)
        return false;
    struct call_turn *r = ring_reserve(&c->ring, sizeof *r);
    if (!r) {
        add(&c->n_lost, 1);
        return false;
    }
    *r = *turn;
    ring_commit(&c->ring, r, sizeof *r, CALL_TURN);
    return true;
}

void calls_attributes(struct calls *c, uint32_t serial, const unsigned char *fields,
                      uint32_t length)
{
    size_t bytes = sizeof(struct call_attributes) + length;
    struct call_attributes *r = c->ring.data ? ring_reserve(&c->ring, bytes) : NULL;
    if (!r)
        return;
    r->serial = serial;
    r->length = length;
    memcpy(r->fields, fields, length);
    ring_commit(&c->ring, r, bytes, CALL_ATTRIBUTES);
}

void calls_clear(struct calls *c)
{
    for (struct call_times *block = c->memory, *next; block; block = next) {
        next = block->next;
        map_memory_free(block, TIMES_BLOCK * sizeof *block);
    }
    map_memory_free(c->ring.data, c->ring.data ? CALLS_RING : 0);
    map_clear(&c->of_node);
}
