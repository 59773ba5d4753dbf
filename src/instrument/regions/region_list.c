/* region_list.c - the calling thread's list of open regions (regions.h), which the signal handler reads.
 *
 * Context: the thread itself, with or without the GIL.
 */
#include "region_stack.h"

#include <pthread.h>
#include <string.h>

#include "map.h"

#define FIRST_CAPACITY 64

static pthread_key_t list_key;
static pthread_once_t list_key_once = PTHREAD_ONCE_INIT;

/* A coroutine that moved to another thread may still be in this list: then it stays. */
static void on_thread_end(void *list)
{
    struct regions *r = list;
    regions_this_thread = NULL;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->slots[i].frame && !r->slots[i].is_native)
            return;
    map_memory_free(r->slots, r->capacity * sizeof *r->slots);
    map_memory_free(r, sizeof *r);
}

static void make_key(void)
{
    pthread_key_create(&list_key, on_thread_end);
}

static struct regions *own_list(void)
{
    if (regions_this_thread)
        return regions_this_thread;
    struct regions *r = map_memory(sizeof *r);
    if (!r)
        return NULL;
    r->slots = map_memory(FIRST_CAPACITY * sizeof *r->slots);
    r->capacity = FIRST_CAPACITY;
    if (!r->slots) {
        map_memory_free(r, sizeof *r);
        return NULL;
    }
    pthread_once(&list_key_once, make_key);
    pthread_setspecific(list_key, r);
    return regions_this_thread = r;
}

/* Full: without its empty slots, or twice as large.  The handler sees none meanwhile. */
static bool make_room(struct regions *r)
{
    uint32_t n = r->n, kept = 0;
    r->n = 0;
    atomic_signal_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < n; i++)
        if (r->slots[i].frame)
            memmove(&r->slots[kept++], &r->slots[i], sizeof *r->slots);
    bool ok = kept < r->capacity;
    struct region_slot *larger = NULL;
    if (kept > r->capacity / 2)
        larger = map_memory(2 * r->capacity * sizeof *larger);
    if (larger) {
        memcpy(larger, r->slots, kept * sizeof *larger);
        map_memory_free(r->slots, r->capacity * sizeof *r->slots);
        r->slots = larger;
        r->capacity *= 2;
        ok = true;
    }
    atomic_signal_fence(memory_order_seq_cst);
    r->n = kept;
    return ok;
}

struct region_slot *region_list_next(uint64_t word, uint64_t frame, uint64_t code, bool is_native)
{
    struct regions *r = own_list();
    if (!r || (r->n == r->capacity && !make_room(r)))
        return NULL;
    struct region_slot *slot = &r->slots[r->n];
    slot->code = code;
    slot->word = word;
    slot->generation = 0;
    slot->call = 0;
    slot->is_native = is_native;
    slot->frame = frame;
    return slot;
}

void region_list_add(const struct region_slot *slot)
{
    atomic_signal_fence(memory_order_seq_cst);
    regions_this_thread->n = (uint32_t)(slot - regions_this_thread->slots) + 1;
}

void region_list_trim(struct regions *r)
{
    while (r->n && !r->slots[r->n - 1].frame)
        r->n--;
}
