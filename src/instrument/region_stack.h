/* region_stack.h - named regions in the shadow stack: each stands on top of the frame that has entered it.
 *
 * Native code's regions are the thread's: where the functions that they stand on end, they move to the one that called
 * those, or to the thread's root; where functions stand on one that was popped, it ends when they do.
 *
 * Context: the thread itself; with the GIL, unless it says otherwise.
 */
#ifndef PYH_REGION_STACK_H
#define PYH_REGION_STACK_H

#include <stdbool.h>

#include "call_tree.h"
#include "turns.h"

struct _PyInterpreterFrame;
struct region_slot;

/* The frame `f`, the innermost one, enters a region; a region ends.  leave: the serial of its call
 * (kept_calls.h) if that was kept, else 0; then its attributes (region_attributes.h) may follow. */
void region_enter(const struct _PyInterpreterFrame *f, struct region_slot *slot);
uint32_t region_leave(const struct region_slot *slot);
void region_note_attributes(uint32_t serial, const unsigned char *fields, uint32_t length);

/* What `f` had entered and never left ends: `f` ends, or another begins in its place in memory. */
void region_forget(struct exact *x, const struct _PyInterpreterFrame *f);

/* The generator or coroutine `f`, which is on top, goes on within the regions that it had entered. */
void region_resume(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f);

/* `f`, which is on top, was found running, within regions.  `linked`: as a generator through which `throw` went; the
 * regions' turns end with its own. */
void region_seed(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f,
                 bool linked);

/* Native code pushes the region of `slot`, which is to be in the list from then on, on `f`, the innermost frame (NULL: none runs),
 * or pops the innermost one with this word.  Also without the GIL, while the session is kept from ending (native_region.c):
 * then `f` must be on top.  False: it could not be placed, and does not count. */
bool region_push_native(struct exact *x, const struct _PyInterpreterFrame *f,
                        struct region_slot *slot, bool has_gil);
void region_pop_native(struct exact *x, uint64_t word, bool has_gil);

/* Code that is no frame's begins on `f`, the innermost frame (NULL: none runs), or goes on; or ends (an event that native code
 * fires for it).  It stands in the stack as a region of that frame, and counts as a function. */
void region_push_fired(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f,
                       uint64_t code, bool is_call);
void region_pop_fired(struct exact *x, struct exact_thread *t, uint64_t code, enum ending how,
                      uint64_t now);

/* The stack gets as deep as `depth`: what stands higher has ended, but native regions, which go on (n_moving).  They stand
 * on the top again, which is known to run. */
void region_take_off(struct exact *x, struct exact_thread *t, uint32_t depth, uint64_t now);
void region_put_back(struct exact *x, struct exact_thread *t, uint64_t now);

/* What stood on native regions that have been popped has ended. */
void region_end_left(struct exact *x, struct exact_thread *t, uint64_t now);

#endif
