#include "thread.h"

#include <errno.h>
#include <sys/mman.h>

#include "map.h"

#define ENTRIES_MAX 1024
#define ENTRIES_FIRST 32
#define FRAMES_FIRST                                                                               \
    128 /* most stacks are shorter; the room for them is three pages, not one for each array */
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

static struct walk_room room(struct layout *l, size_t max_frames, size_t max_entries)
{
    struct walk_room r = {.max_frames = max_frames, .max_entries = max_entries};
    r.native = piece(l, max_frames * sizeof *r.native);
    r.frames = piece(l, max_frames * sizeof *r.frames);
    r.entries = piece(l, max_entries * sizeof *r.entries);
    r.anchors = piece(l, max_entries * sizeof *r.anchors);
    r.python = piece(l, max_frames * sizeof *r.python);
    r.words = piece(l, max_frames * sizeof *r.words);
    return r;
}

static struct thread *lay_out(struct layout *l, const struct thread_limits *limits)
{
    size_t n = limits->max_frames < FRAMES_FIRST ? limits->max_frames : FRAMES_FIRST;
    struct thread *t = piece(l, sizeof *t);
    struct walk_room first = room(l, n, ENTRIES_FIRST);
    void *ring = piece(l, limits->ring_bytes);
    struct walk_room full = room(l, limits->max_frames, ENTRIES_MAX);
    struct callers callers = {.max = limits->max_frames};
    callers.place = piece(l, (callers.max + 1) * sizeof *callers.place);
    if (!l->base)
        return NULL;
    thread_use_room(t, &first);
    t->full_room = full;
    t->callers = callers;
    ring_init(&t->ring, ring, limits->ring_bytes);
    return t;
}

static struct thread *make(const struct registry *r, struct thread_limits limits)
{
    struct layout l = {0};
    if (r->n >= RINGS_LARGE)
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

int registry_init(struct registry *r)
{
    r->of_tid = map_memory(TIDS_MAX * sizeof *r->of_tid);
    return r->of_tid ? 0 : -ENOMEM;
}

static void free_record(struct thread *t)
{
    if (t)
        munmap(t, t->mapping_bytes);
}

void registry_free(struct registry *r)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_take_claimed(r));)
        free_record(t);
    for (struct thread *t; (t = registry_next(r, &at));)
        registry_remove(r, t);
    for (int i = 0; i < THREADS_STOCK; i++)
        free_record(atomic_exchange(&r->stock[i], NULL));
    map_memory_free(r->numbered, r->numbered_bytes);
    map_memory_free(r->of_tid, TIDS_MAX * sizeof *r->of_tid);
}

/* A place for `t` in `numbered`.  False: no memory. */
static bool place(struct registry *r, struct thread *t)
{
    while (r->lowest_free < r->n && r->numbered[r->lowest_free])
        r->lowest_free++;
    if (r->lowest_free == r->n) {
        if (!map_memory_grow(&r->numbered, &r->numbered_bytes, r->n + 1, sizeof *r->numbered))
            return false;
        r->n++;
    }
    t->place = r->lowest_free++;
    r->numbered[t->place] = t;
    return true;
}

struct thread *registry_add(struct registry *r, pid_t tid, uint32_t index,
                            const struct thread_limits *limits)
{
    struct thread *claimed = registry_find(r, tid), *t = claimed ? claimed : make(r, *limits);
    if (!t || tid < 0 || tid >= TIDS_MAX || !place(r, t)) {
        if (!claimed)
            free_record(t);
        return NULL;
    }
    if (!claimed) {
        t->tid = tid;
        if (!atomic_compare_exchange_strong(&r->of_tid[tid], &claimed, t)) {
            claimed->place = t->place;
            r->numbered[t->place] = claimed;
            free_record(t);
            t = claimed;
        }
    }
    t->index = index;
    return t;
}

void registry_unnumber(struct registry *r, struct thread *t)
{
    t->index = 0;
    r->numbered[t->place] = NULL;
    if (t->place < r->lowest_free)
        r->lowest_free = t->place;
}

void registry_remove(struct registry *r, struct thread *t)
{
    registry_unnumber(r, t);
    atomic_store(&r->of_tid[t->tid], NULL);
    free_record(t);
}

void registry_stock(struct registry *r, const struct thread_limits *limits)
{
    for (int i = 0; i < THREADS_STOCK; i++)
        if (!atomic_load_explicit(&r->stock[i], memory_order_relaxed)) /* only we put one there */
            atomic_store(&r->stock[i], make(r, *limits));
}

struct thread *registry_next(struct registry *r, uint32_t *at)
{
    while (*at < r->n) {
        struct thread *t = r->numbered[(*at)++];
        if (t)
            return t;
    }
    return NULL;
}

void registry_keep_claimed(struct registry *r, struct thread *t)
{
    t->next_claimed = r->unnumbered;
    r->unnumbered = t;
}

struct thread *registry_take_claimed(struct registry *r)
{
    for (struct thread *t = atomic_exchange(&r->claimed, NULL), *next; t; t = next) {
        next = t->next_claimed;
        registry_keep_claimed(r, t);
    }
    for (struct thread *t; (t = r->unnumbered);) {
        r->unnumbered = t->next_claimed;
        if (!t->tid)
            free_record(t);
        else if (!t->index)
            return t;
    }
    return NULL;
}
