#include "listener.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "map.h"

#define EXPORTED __attribute__((visibility("default")))
#define REGIONS_MAX 65536u /* the first one is [other] */
#define PLACES (2 * REGIONS_MAX)
#define NAME_MAX_BYTES 4096u

EXPORTED pyhybrid_listen_call pyhybrid_listen;

/* Nothing is ever removed, so who asks needs no lock: a fork or a signal may come at any moment. */
static struct table {
    struct pyhybrid_region region[REGIONS_MAX];
    _Atomic uint32_t place[PLACES]; /* by hash: a region's index; 0: free */
    _Atomic uint32_t n;
} *_Atomic the_table;

static const struct pyhybrid_listener *_Atomic listener;

void pyhybrid_listen(const struct pyhybrid_listener *l)
{
    atomic_store(&listener, l);
}

/* _native, if it is loaded already. */
static __attribute__((constructor)) void find_native(void)
{
    Dl_info own;
    char path[PATH_MAX];
    if (!dladdr((void *)find_native, &own) || !own.dli_fname)
        return;
    const char *name = strrchr(own.dli_fname, '/');
    int folder = name ? (int)(name + 1 - own.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s" NATIVE_FILE, folder, own.dli_fname);
    void *native = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    pyhybrid_listener_call *ask = NULL;
    if (native)
        ask = (pyhybrid_listener_call *)dlsym(native, PYHYBRID_LISTENER);
    if (ask)
        pyhybrid_listen(ask());
}

static struct table *table(void)
{
    struct table *t = atomic_load_explicit(&the_table, memory_order_acquire), *none = NULL;
    if (t || !(t = map_memory(sizeof *t)))
        return t;
    t->region[0].name = "[other]";
    t->region[0].length = 7;
    atomic_store(&t->n, 1);
    if (atomic_compare_exchange_strong(&the_table, &none, t))
        return t;
    map_memory_free(t, sizeof *t);
    return none;
}

static uint32_t hash_of(const char *name, size_t length)
{
    uint64_t h = length;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
    return (uint32_t)map_hash(h) & (PLACES - 1);
}

/* An index for a region that is filled in; 0: no more. */
static uint32_t new_region(struct table *t, const char *name, size_t length)
{
    uint32_t index = atomic_load(&t->n) < REGIONS_MAX ? atomic_fetch_add(&t->n, 1) : REGIONS_MAX;
    char *copy = index < REGIONS_MAX ? strndup(name, length) : NULL;
    if (!copy)
        return 0;
    t->region[index].name = copy;
    t->region[index].length = (uint32_t)length;
    return index;
}

EXPORTED const pyhybrid_region *pyhybrid_region_named(const char *name)
{
    struct table *t = name ? table() : NULL;
    if (!t)
        return NULL;
    size_t length = strnlen(name, NAME_MAX_BYTES);
    uint32_t made = 0;
    for (uint32_t at = hash_of(name, length);; at = (at + 1) & (PLACES - 1)) {
        uint32_t index = atomic_load_explicit(&t->place[at], memory_order_acquire);
        if (!index) {
            if (!made && !(made = new_region(t, name, length)))
                return &t->region[0];
            if (atomic_compare_exchange_strong(&t->place[at], &index, made))
                return &t->region[made];
        }
        const struct pyhybrid_region *r = &t->region[index];
        if (r->length == length && !memcmp(r->name, name, length))
            return r; /* (another thread was faster: ours is one that nobody uses) */
    }
}

/* NULL: it is none of ours, or nobody listens. */
static struct pyhybrid_region *known(const pyhybrid_region *region)
{
    struct table *t = atomic_load_explicit(&the_table, memory_order_acquire);
    size_t offset = (size_t)region - (size_t)t;
    return t && offset < sizeof t->region && offset % sizeof *region == 0
               ? (struct pyhybrid_region *)region
               : NULL;
}

EXPORTED void pyhybrid_region_push(const pyhybrid_region *region)
{
    const struct pyhybrid_listener *l = atomic_load_explicit(&listener, memory_order_acquire);
    struct pyhybrid_region *r = l ? known(region) : NULL;
    if (r)
        l->push(r);
}

EXPORTED void pyhybrid_region_pop(const pyhybrid_region *region)
{
    const struct pyhybrid_listener *l = atomic_load_explicit(&listener, memory_order_acquire);
    struct pyhybrid_region *r = l ? known(region) : NULL;
    if (r)
        l->pop(r);
}
