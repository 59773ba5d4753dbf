#include "backward_sums.h"

#include <pthread.h>

#include "map.h"

#define BLOCKS_MAX 16384 /* of a session: four million sums */
#define FIRST_PLACES 512

struct block {
    _Atomic uint32_t n;
    struct sum {
        uint32_t thread, node, name;
        _Atomic uint32_t calls;
        _Atomic uint64_t ticks;
    } sum[LATER_BLOCK];
    struct block *next; /* of the same thread's, where it has been in it before */
};

struct backward_sums {
    uint32_t session; /* of what is in it */
    uint32_t n, n_places;
    struct sum **places; /* by hash; at most half of them are taken */
    struct block *first, *last;
    struct backward_sums *next; /* of those that are no thread's */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static struct backward_sums *unused;
static struct block *blocks[BLOCKS_MAX]; /* of the session that runs */
static uint32_t n_blocks, running;

struct backward_sums *backward_sums_take(void)
{
    pthread_mutex_lock(&lock);
    struct backward_sums *s = unused;
    if (s)
        unused = s->next;
    pthread_mutex_unlock(&lock);
    return s ? s : map_memory(sizeof *s);
}

void backward_sums_give(struct backward_sums *s)
{
    pthread_mutex_lock(&lock);
    s->next = unused;
    unused = s;
    pthread_mutex_unlock(&lock);
}

static struct sum **place_of(const struct backward_sums *s, uint32_t thread, uint32_t node,
                             uint32_t name)
{
    uint32_t mask = s->n_places - 1;
    uint64_t h = map_hash(((uint64_t)thread << 32 | node) * 0x9e3779b97f4a7c15ull + name);
    for (uint32_t at = (uint32_t)h & mask;; at = (at + 1) & mask) {
        const struct sum *there = s->places[at];
        if (!there || (there->node == node && there->name == name && there->thread == thread))
            return &s->places[at];
    }
}

static bool set_places(struct backward_sums *s, uint32_t n)
{
    struct sum **larger = map_memory(n * sizeof *larger), **old = s->places;
    uint32_t n_old = s->n_places;
    if (!larger)
        return false;
    s->places = larger;
    s->n_places = n;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i])
            *place_of(s, old[i]->thread, old[i]->node, old[i]->name) = old[i];
    map_memory_free(old, n_old * sizeof *old);
    return true;
}

/* The next block: one of an earlier session's, or a new one.  It is read from now on, if the session runs. */
static struct block *next_block(struct backward_sums *s)
{
    struct block *b = s->last ? s->last->next : s->first;
    if (!b) {
        if (!(b = map_memory(sizeof *b)))
            return NULL;
        if (s->last)
            s->last->next = b;
        else
            s->first = b;
    }
    pthread_mutex_lock(&lock);
    bool is_read = s->session == running && n_blocks < BLOCKS_MAX;
    if (is_read) {
        atomic_store(&b->n, 0);
        blocks[n_blocks++] = b;
    }
    pthread_mutex_unlock(&lock);
    return is_read ? (s->last = b) : NULL;
}

/* A new one, at a place that is free; NULL: there is no room, or the session has ended. */
static __attribute__((noinline)) struct sum *new_sum(struct backward_sums *s, const struct maker *o,
                                                     uint32_t name)
{
    if (2 * (s->n + 1) > s->n_places &&
        !set_places(s, s->n_places ? 2 * s->n_places : FIRST_PLACES))
        return NULL;
    struct block *b = s->n % LATER_BLOCK ? s->last : next_block(s);
    if (!b)
        return NULL;
    struct sum *sum = &b->sum[s->n++ % LATER_BLOCK];
    *sum = (struct sum){.thread = o->thread, .node = o->node, .name = name};
    *place_of(s, o->thread, o->node, name) = sum;
    atomic_fetch_add_explicit(&b->n, 1, memory_order_release);
    return sum;
}

static __attribute__((noinline)) void clear(struct backward_sums *s, uint32_t session)
{
    for (uint32_t i = 0; i < s->n_places; i++)
        s->places[i] = NULL;
    s->n = 0;
    s->last = NULL;
    s->session = session;
}

void backward_sums_add(struct backward_sums *s, uint32_t session, const struct maker *origin,
                       uint32_t name, uint64_t ticks)
{
    if (s->session != session)
        clear(s, session);
    struct sum *sum = s->n ? *place_of(s, origin->thread, origin->node, name) : NULL;
    if (!sum && !(sum = new_sum(s, origin, name)))
        return;
    uint32_t calls = atomic_load_explicit(&sum->calls, memory_order_relaxed);
    uint64_t all = atomic_load_explicit(&sum->ticks, memory_order_relaxed);
    atomic_store_explicit(&sum->calls, calls + 1, memory_order_relaxed);
    atomic_store_explicit(&sum->ticks, all + ticks, memory_order_relaxed);
}

void backward_sums_start(uint32_t session)
{
    pthread_mutex_lock(&lock);
    n_blocks = 0;
    running = session;
    pthread_mutex_unlock(&lock);
}

void backward_sums_forget(void)
{
    backward_sums_start(0);
}

bool backward_sums_read(uint32_t block, struct backward_sum *to, uint32_t *n)
{
    pthread_mutex_lock(&lock);
    struct block *b = block < n_blocks ? blocks[block] : NULL;
    pthread_mutex_unlock(&lock);
    *n = b ? atomic_load_explicit(&b->n, memory_order_acquire) : 0;
    for (uint32_t i = 0; i < *n; i++) {
        const struct sum *s = &b->sum[i];
        to[i] = (struct backward_sum){
            .thread = s->thread,
            .node = s->node,
            .name = s->name,
            .calls = atomic_load_explicit(&s->calls, memory_order_relaxed),
            .ticks = atomic_load_explicit(&s->ticks, memory_order_relaxed),
        };
    }
    return b;
}

void backward_sums_after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    unused = NULL; /* another thread may have been about to change it */
    n_blocks = 0;
}
