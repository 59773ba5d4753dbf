/* regions.h - the named regions (`with pyhybrid.region("epoch")`) that a thread is in.
 *
 * A region belongs to the Python frame that entered it, and is where that frame is: a coroutine's
 * regions are suspended with it.  Each thread has a list of its own; the handler reads it.
 *
 * Those that native code pushes (capi/pyhybrid.h) belong to the thread: when their function ends, they are the
 * caller's.
 *
 * Context: regions_this_thread and struct regions are read in signal handlers of the same thread, and written by it
 * (with the GIL, another thread may empty a slot that is not native).
 */
#ifndef PYH_REGIONS_H
#define PYH_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct region_slot {
    _Atomic uint64_t frame; /* a _PyInterpreterFrame; REGION_OF_THREAD; 0: empty */
    uint64_t code;          /* that it runs */
    uint64_t word;          /* frame.h, PYH_TAG_REGION */
    uint32_t
        call; /* kept_calls.h: an open call of the session `generation`; native: was its begin seen? */
    uint32_t generation; /* of the session in whose stack it has been */
    bool is_native;
};

#define REGION_OF_THREAD 1 /* in place of a frame: no Python function runs */

struct regions {
    struct region_slot *slots; /* in the order in which they were entered */
    _Atomic uint32_t n;
    uint32_t capacity;
};

/* Returns whether the region is one of the frame at `frame`, which runs `code`.  Another function's may have come to
 * the place of one that is gone: of a helper that entered the region, and returned. */
static inline bool region_is_of(const struct region_slot *slot, uint64_t frame, uint64_t code)
{
    return atomic_load_explicit(&slot->frame, memory_order_relaxed) == frame && slot->code == code;
}

extern __thread struct regions *regions_this_thread; /* NULL: never any */

#endif
