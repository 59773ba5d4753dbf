/* The regions of pyhybrid.h: a listener is notified of them. */
#include "listener.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "exports.h"
#include "names.h"
#include "pyhybrid.h"
#include "values.h"

EXPORTED pyhybrid_listen_call pyhybrid_listen;

NAMES(names, PYHYBRID_REGIONS);
static struct pyhybrid_region regions[PYHYBRID_REGIONS] = {{.name = "[other]", .length = 7}};
static const struct pyhybrid_listener *_Atomic listener;

pyhybrid_values_call *pyhybrid_listen(const struct pyhybrid_listener *l)
{
    atomic_store(&listener, l);
    return values_read;
}

uint32_t values_session(void)
{
    const struct pyhybrid_listener *l = atomic_load_explicit(&listener, memory_order_acquire);
    return l ? l->session() : 0;
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
        ask(pyhybrid_listen);
}

EXPORTED const pyhybrid_region *pyhybrid_region_named(const char *name)
{
    if (!name)
        return NULL;
    struct pyhybrid_region *r = &regions[names_number(&names, name)];
    if (!r->name) { /* whoever does it writes the same */
        r->length = (uint32_t)strnlen(name, 4096);
        r->name = atomic_load(&names.text[r - regions]);
    }
    return r;
}

bool pyhybrid_region_is(const void *region)
{
    size_t offset = (size_t)region - (size_t)regions;
    return offset < sizeof regions && offset % sizeof *regions == 0;
}

uint32_t pyhybrid_region_index(const pyhybrid_region *region)
{
    return (uint32_t)(region - regions);
}

/* NULL: it is none of ours. */
static struct pyhybrid_region *known(const pyhybrid_region *region)
{
    return pyhybrid_region_is(region) ? (struct pyhybrid_region *)region : NULL;
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
    struct pyhybrid_region *r = l && region ? known(region) : NULL;
    if (l && (r || !region))
        l->pop(r);
}
