/* region_list.h - the calling thread's list of open regions (regions.h), which the signal handler reads.
 *
 * Context: the thread itself, with or without the GIL.
 */
#ifndef PYH_REGION_LIST_H
#define PYH_REGION_LIST_H

#include "regions.h"

/* One that is to be the new innermost one, and is in the list from region_list_add on.  NULL: no memory. */
struct region_slot *region_list_next(uint64_t word, uint64_t frame, uint64_t code, bool is_native);
void region_list_add(const struct region_slot *slot);

/* Takes away empty slots at its end. */
void region_list_trim(struct regions *r);

#endif
