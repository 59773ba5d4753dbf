/* listener.h - between libpyhybrid.so, which instrumented code calls, and _native, which listens to it.
 *
 * The library knows names alone, so that they are there before a profiler is, and while none runs.
 */
#ifndef PYH_LISTENER_H
#define PYH_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pyhybrid.h"
#include "values.h"

struct pyhybrid_region {
    const char *name;
    uint32_t length;
    /* The listener's: its number (frame.h), the session whose spool has its name, the one whose sinks have.  0: none. */
    _Atomic uint32_t number, recorded, emitted;
} __attribute__((aligned(32)));

/* The functions that are called at each push and pop, for the process's life. */
struct pyhybrid_listener {
    void (*push)(struct pyhybrid_region *region);
    void (*pop)(struct pyhybrid_region *region); /* NULL: the innermost one */
    uint32_t (*session)(void);                   /* the one that runs; 0: none */
};

/* Whichever of the two is loaded later finds the other, if that is there, and calls this by the name of its symbol: the
 * library's pyhybrid_listen(listener), or _native's pyhybrid_listener(listen).  So nothing is loaded that nobody wants. */
typedef pyhybrid_values_call *pyhybrid_listen_call(const struct pyhybrid_listener *listener);
typedef void pyhybrid_listener_call(pyhybrid_listen_call *listen);
#define PYHYBRID_LISTEN "pyhybrid_listen"
#define PYHYBRID_LISTENER "pyhybrid_listener"

/* pyhybrid_region_is returns whether `region`, which may point anywhere, is one that pyhybrid_region_named returns;
 * pyhybrid_region_index which one, below PYHYBRID_REGIONS. */
#define PYHYBRID_REGIONS 65536u
bool pyhybrid_region_is(const void *region);
uint32_t pyhybrid_region_index(const pyhybrid_region *region);

#endif
