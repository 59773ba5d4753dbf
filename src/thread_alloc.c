#include "thread.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ENTRIES_MAX 1024
/* How many: samples are divided among the threads, and thousands of such rings would take gigabytes. */
#define RINGS_LARGE 32

/* Cuts aligned pieces off one mapping: counted first (base NULL), then laid out. */
struct layout {
    unsigned char *base;
    size_t used;
};

static void *piece(struct layout *l, size_t size)
{
    void *p = l->base + l->used;
    l->used += (size + 63) & ~63ull;
    return p;
}

static struct thread *lay_out(struct layout *l, const struct thread_limits *limits)
{
    size_t n = limits->max_frames;
    struct thread *t = piece(l, sizeof *t);
    struct unwind_cache *cache = piece(l, sizeof *cache);
    struct native_frame *native = piece(l, n * sizeof *native);
    struct py_frame *frames = piece(l, n * sizeof *frames);
    struct py_entry *entries = piece(l, ENTRIES_MAX * sizeof *entries);
    uint64_t *anchors = piece(l, ENTRIES_MAX * sizeof *anchors);
    uint64_t *python = piece(l, n * sizeof *python), *words = piece(l, n * sizeof *words);
    void *ring = piece(l, limits->ring_bytes);
    if (!l->base)
        return NULL;
    t->unwind.cache = cache;
    t->native = native;
    t->chain = (struct py_chain){.frames = frames,
                                 .max_frames = n,
                                 .entries = entries,
                                 .anchors = anchors,
                                 .max_entries = ENTRIES_MAX};
    t->python = python;
    t->words = words;
    ring_init(&t->ring, ring, limits->ring_bytes);
    return t;
}

static struct thread *make(const struct registry *r, struct thread_limits limits)
{
    struct layout l = {0};
    if (atomic_load_explicit(&r->n, memory_order_relaxed) >= RINGS_LARGE)
        limits.ring_bytes = limits.ring_least_bytes;
    lay_out(&l, &limits);
    size_t bytes = l.used;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    l = (struct layout){p, 0};
    struct thread *t = lay_out(&l, &limits);
    t->limits = limits;
    t->mapping_bytes = bytes;
    return t;
}

/* A handler that holds it may have to wait for a processor. */
static void begin_change(struct registry *r)
{
    struct timespec a_while = {.tv_nsec = 20000};
    while (!registry_try_change(r))
        nanosleep(&a_while, NULL); /* not sched_yield: our priority may be the higher one */
}

static void end_change(struct registry *r)
{
    atomic_flag_clear(&r->changing);
}

struct thread *registry_add(struct registry *r, pid_t tid, uint32_t index,
                            const struct thread_limits *limits)
{
    struct thread *fresh = registry_find(r, tid) ? NULL : make(r, *limits), *t = fresh;
    begin_change(r);
    struct thread *claimed = registry_find(r, tid);
    if (claimed)
        t = claimed;
    else if (t) {
        t->tid = tid;
        t = registry_put(r, t) ? t : NULL;
    }
    if (t)
        t->index = index;
    end_change(r);
    if (fresh && fresh != t)
        munmap(fresh, fresh->mapping_bytes);
    return t;
}

void registry_remove(struct registry *r, struct thread *t)
{
    begin_change(r);
    uint32_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&r->slot[i].thread, memory_order_relaxed) == t) {
            atomic_store_explicit(&r->slot[i].tid, 0, memory_order_release);
            atomic_store_explicit(&r->slot[i].thread, NULL, memory_order_relaxed);
        }
    end_change(r);
    munmap(t, t->mapping_bytes);
}

void registry_stock(struct registry *r, const struct thread_limits *limits)
{
    for (int i = 0; i < THREADS_STOCK; i++) {
        if (r->stock[i]) /* only we put one there */
            continue;
        struct thread *t = make(r, *limits);
        begin_change(r);
        r->stock[i] = t;
        end_change(r);
    }
}

void registry_unstock(struct registry *r)
{
    begin_change(r);
    for (int i = 0; i < THREADS_STOCK; i++) {
        if (r->stock[i])
            munmap(r->stock[i], r->stock[i]->mapping_bytes);
        r->stock[i] = NULL;
    }
    end_change(r);
}

static struct thread *next(struct registry *r, uint32_t *at, bool claimed)
{
    uint32_t n = atomic_load_explicit(&r->n, memory_order_acquire);
    while (*at < n) {
        struct thread *t = atomic_load_explicit(&r->slot[(*at)++].thread, memory_order_acquire);
        if (t && claimed == !t->index)
            return t;
    }
    return NULL;
}

struct thread *registry_next(struct registry *r, uint32_t *at)
{
    return next(r, at, false);
}

struct thread *registry_next_claimed(struct registry *r, uint32_t *at)
{
    return next(r, at, true);
}
