/* running_backward.h - for which earlier calls the calling thread does work just now: an autograd node for the layer
 * that made it.
 *
 * An entry has the address of something in the stack frame of the function that does the work.  The handler puts the
 * word between that frame and what it calls, by address as entry frames are placed (join.h).
 *
 * Context: causes_this_thread and struct causes are read in signal handlers of the same thread, and written by it
 * alone.
 */
#ifndef PYH_RUNNING_BACKWARD_H
#define PYH_RUNNING_BACKWARD_H

#include <stdatomic.h>
#include <stdint.h>

#define CAUSES_MAX 32 /* in one another */

struct causes {
    _Atomic uint32_t n; /* may be more than CAUSES_MAX: those beyond are not known */
    struct {
        uint64_t address;
        uint64_t word; /* frame.h, PYH_REGION_CAUSE; 0: not known */
    } at[CAUSES_MAX];
};

extern __thread struct causes *causes_this_thread; /* NULL: never any */

#endif
