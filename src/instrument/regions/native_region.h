/* native_region.h - regions that native code pushes and pops (capi/pyhybrid.h), with or without the GIL.
 *
 * Context: with the GIL, unless otherwise stated.
 */
#ifndef PYH_NATIVE_REGION_H
#define PYH_NATIVE_REGION_H

#include <stdint.h>

#include "listener.h"
#include "region.h"

void native_region_init(const struct region_session *session);

/* Listens to libpyhybrid.so, which has been loaded, from now on. */
void native_region_listen(pyhybrid_listen_call *listen);

/* Gives what it knows besides regions, of the session `generation`. */
void native_region_values(uint32_t generation, const struct pyhybrid_values *to);

/* Counts, since the session began, of pushes that could not be placed in the tree, and of pops of what was not open. */
struct native_region_losses {
    uint64_t n_unplaced, n_unmatched;
};

/* The session `generation` runs, or (close) is about to end: when it returns, no thread is in the midst of its spool. */
void native_region_open(uint32_t generation);
struct native_region_losses native_region_close(void);

/* exact_current has been set to NULL: when it returns, no thread is in the midst of its tree. */
void native_region_settle(void);

/* Call it in a forked child at once; it needs no Python. */
void native_region_after_fork_child(void);

#endif
