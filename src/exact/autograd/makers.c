#include "makers.h"

#include "map.h"

#define SPANS (1u << 16) /* of a thread; a power of two */
#define SLACK 16         /* of the oldest ones, which may be overwritten just now */
#define RINGS 1024       /* threads, by the library's number, or at the next place that is free */
#define OBJECT_DEPTH 64  /* nodes that are looked at for an object */

struct maker_ring {
    _Atomic uint64_t maker;
    _Atomic uint32_t thread;
    _Atomic uint64_t n; /* spans, ever: the last ones are in it */
    struct {
        _Atomic uint64_t
            end; /* the number after its last one; it begins with the end of the one before */
        _Atomic uint64_t where; /* node, and above it the object; 0: no function's */
    } span[SPANS];
};

/* They stay for the process's life: a thread may be reading one at any time. */
static _Atomic(struct maker_ring *) rings[RINGS];

static const struct maker_source *source;
static const uint64_t nothing = 0, anything = 1;

void makers_begin_thread(struct exact_thread *t)
{
    t->counter = source ? &anything : &nothing;
}

void makers_skip(struct exact *x)
{
    for (struct exact_thread *t = atomic_load(&x->threads); t; t = t->next) {
        t->counter = source ? &anything : &nothing;
        t->seen = 0;
    }
}

void makers_watch(const struct maker_source *new_source)
{
    struct exact *x = atomic_load(&exact_current);
    source = new_source;
    if (x)
        makers_skip(x);
}

/* Threads and nodes have their numbers by session.  Whoever has one of the rings finds nothing in it. */
void makers_forget(void)
{
    for (int i = 0; i < RINGS; i++) {
        struct maker_ring *r = atomic_load(&rings[i]);
        if (r)
            atomic_store(&r->maker, 0);
    }
}

void makers_after_fork_child(void)
{
    source = NULL;
}

static void add_span(struct maker_ring *r, uint64_t end, uint64_t where)
{
    uint64_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
    atomic_store_explicit(&r->span[n % SPANS].end, end, memory_order_relaxed);
    atomic_store_explicit(&r->span[n % SPANS].where, where, memory_order_relaxed);
    atomic_store_explicit(&r->n, n + 1, memory_order_release);
}

/* Where a maker's ring may be: at one of these places, before the first that is empty. */
static _Atomic(struct maker_ring *) *place_of(uint64_t maker, uint64_t tries)
{
    return &rings[(maker + tries) % RINGS];
}

/* Does another thread that lives have it? */
static bool is_taken(const struct maker_ring *r, const struct exact_thread *t)
{
    struct exact *x = atomic_load(&exact_current);
    for (const struct exact_thread *other = x ? atomic_load(&x->threads) : NULL; other;
         other = other->next)
        if (other->origins == r && other != t && !atomic_load(&other->ended))
            return true;
    return false;
}

/* The ring of a thread that has none yet.  NULL: too many threads live, or there is no memory. */
static struct maker_ring *claim(const struct exact_thread *t)
{
    uint64_t maker = source->maker(), tries = 0;
    struct maker_ring *r;
    while ((r = atomic_load(place_of(maker, tries))) && is_taken(r, t))
        if (++tries == RINGS)
            return NULL;
    bool is_new = !r;
    if (is_new && !(r = map_memory(sizeof *r)))
        return NULL;
    atomic_store(&r->maker, 0); /* whoever reads it finds nothing meanwhile */
    atomic_store(&r->n, 0);
    atomic_store(&r->thread, (uint32_t)t->serial);
    atomic_store(&r->maker, maker);
    if (is_new)
        atomic_store(place_of(maker, tries), r);
    return r;
}

/* The innermost object around a node; 0: there is none. */
static uint32_t object_of(struct exact_thread *t, const struct exact_node *n)
{
    for (int i = 0; i < OBJECT_DEPTH && n->id; i++) {
        if (frame_is_object(n->word))
            return (uint32_t)n->word;
        if (!n->parent)
            break;
        n = exact_read_node(t, n->parent);
    }
    return 0;
}

void makers_note(struct exact_thread *t)
{
    if (t->counter == &anything) {
        const uint64_t *counter = source ? source->counter() : NULL;
        t->counter = counter ? counter : &nothing;
        t->seen = *t->counter;
        if (t->origins)
            add_span(t->origins, t->seen, 0);
        return;
    }
    uint64_t end = *t->counter;
    if (!t->origins && (t->origins = claim(t)))
        add_span(t->origins, t->seen, 0);
    t->seen = end;
    if (!t->origins)
        return;
    const struct exact_node *top = t->depth ? t->stack[t->depth - 1].node : &t->root;
    add_span(t->origins, end, top->id | (uint64_t)object_of(t, top) << 32);
}

uint64_t makers_next(const struct exact_thread *t)
{
    return t->counter == &nothing || t->counter == &anything ? UINT64_MAX : *t->counter;
}

/* --- on any thread ---------------------------------------------------------------------------------- */

static uint64_t end_of(const struct maker_ring *r, uint64_t i)
{
    return atomic_load_explicit(&r->span[i % SPANS].end, memory_order_relaxed);
}

/* Is it in span `i`, which is not the oldest one? */
static bool is_in(const struct maker_ring *r, uint64_t i, uint64_t number)
{
    return end_of(r, i) > number && end_of(r, i - 1) <= number;
}

/* The span with the number, among those after `first` and before `n`; 0: there is none. */
static uint64_t search(const struct maker_ring *r, uint64_t first, uint64_t n, uint64_t number,
                       uint64_t hint)
{
    /* Backward passes go from the last ones to the first ones. */
    for (uint64_t i = hint; i > first && i < n && i + 2 > hint; i--)
        if (is_in(r, i, number))
            return i;
    uint64_t low = first, high = n - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (end_of(r, middle) > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low > first && is_in(r, low, number) ? low : 0;
}

bool maker_find(uint64_t maker, uint64_t number, uint64_t *hint, struct maker *found)
{
    const struct maker_ring *r = NULL;
    for (uint64_t tries = 0; maker && tries < RINGS; tries++)
        if (!(r = atomic_load(place_of(maker, tries))) || atomic_load(&r->maker) == maker)
            break;
    if (!r || atomic_load(&r->maker) != maker)
        return false;
    found->thread = atomic_load_explicit(&r->thread, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&r->n, memory_order_acquire);
    uint64_t first = n > SPANS ? n - SPANS + SLACK : 0;
    uint64_t at = n ? search(r, first, n, number, *hint) : 0;
    if (!at)
        return false;
    uint64_t where = atomic_load_explicit(&r->span[at % SPANS].where, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load(&r->maker) != maker || atomic_load(&r->n) - at >= SPANS || !where)
        return false;
    *hint = at;
    found->node = (uint32_t)where;
    found->object = (uint32_t)(where >> 32);
    return true;
}
