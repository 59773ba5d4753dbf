/* launcher.h - where the program begins, if pyhybrid runs it.
 *
 *     launcher's outermost frame ... launcher's frame | C code of the interpreter's ... | the program's frames ...
 *
 * What called pyhybrid's command line (runpy, a console script, a launcher of one's own) and the command line itself
 * are no part of the program.  program.c, which runs it, records here which frames those are: both walks end at the
 * eval loop that they called, and the callbacks count nothing of what they do.  Of a test that pytest runs the same is
 * true while the test does (program_call_apart).
 *
 * Context: written with the GIL by the thread that runs the program; read anywhere.  Frames' addresses: they mean
 * nothing to other threads.
 */
#ifndef PYH_LAUNCHER_H
#define PYH_LAUNCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pyframe.h"

struct launcher {
    _Atomic uint64_t frame; /* what it calls is the program; 0: it does not run (yet, any more) */
    _Atomic uint64_t cfa;   /* of the C function by which it calls it */
    _Atomic uint64_t outermost_frame,
        outermost_code; /* 0: the program began pyhybrid, not the other way round */
};
extern struct launcher launcher;

static inline uint64_t launcher_frame(void)
{
    return atomic_load_explicit(&launcher.frame, memory_order_relaxed);
}

/* Returns whether this is the outermost frame of a chain that is the launcher's own.  Its memory is used again, by
 * other code. */
static inline bool launcher_is_outermost(uint64_t frame, uint64_t code)
{
    return frame == atomic_load_explicit(&launcher.outermost_frame, memory_order_relaxed) &&
           code == atomic_load_explicit(&launcher.outermost_code, memory_order_relaxed);
}

/* Makes walks of `u` from `sp` on complete with the C function that called the program.  Returns false if that is not
 * further out on this stack. */
static inline bool launcher_stop(struct unwind *u, uint64_t sp)
{
    uint64_t cfa = atomic_load_explicit(&launcher.cfa, memory_order_relaxed);
    if (cfa <= sp || cfa > u->stack_high)
        return false;
    u->stop_cfa = cfa;
    u->stop_slack = 0;
    return true;
}

#endif
