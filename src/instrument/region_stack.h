/* region_stack.h - named regions in the shadow stack: each stands on top of the frame that has entered it.
 *
 * Context: with the GIL.
 */
#ifndef PYH_REGION_STACK_H
#define PYH_REGION_STACK_H

#include "call_tree.h"

struct _PyInterpreterFrame;
struct region_slot;

/* The frame `f`, the innermost one, enters a region; a region ends.  leave: the serial of its call
 * (kept_calls.h) if that was kept, else 0; then its attributes, a JSON object, may follow. */
void region_enter(const struct _PyInterpreterFrame *f, struct region_slot *slot);
uint32_t region_leave(const struct region_slot *slot);
void region_note_attributes(uint32_t serial, const char *text, uint32_t length);

/* What `f` had entered and never left ends: `f` ends, or another begins in its place in memory. */
void region_forget(struct exact *x, const struct _PyInterpreterFrame *f);

/* The generator or coroutine `f`, which is on top, goes on within the regions that it had entered. */
void region_resume(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f);

/* `f`, which is on top, was found running, within regions.  `linked`: as a generator through which `throw` went; the
 * regions' turns end with its own. */
void region_seed(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f,
                 bool linked);

#endif
