/* backward_place.h - where the calling thread is in backward work (backward_work.h), and what is no part of that.
 */
#ifndef PYH_BACKWARD_PLACE_H
#define PYH_BACKWARD_PLACE_H

#include <stdint.h>

struct backward_place {
    uint32_t n;     /* pieces that run, in one another */
    uint64_t inner; /* ticks of the innermost one that are no part of its own time */
};

/* Returns where it is now. */
struct backward_place backward_place(void);

/* What ran since then, so many ticks, is no part of the piece that ran, whatever other pieces were in it. */
void backward_leave_out(struct backward_place place, uint64_t ticks);

#endif
