/* region_stack.h - named regions in the shadow stack: each stands on top of the frame that has entered it.
 *
 * Context: with the GIL.
 */
#ifndef PYH_REGION_STACK_H
#define PYH_REGION_STACK_H

#include "exact.h"

struct _PyInterpreterFrame;
struct region_slot;

/* The frame `f`, the innermost one, enters a region; a region ends.  leave: the serial of its call
 * (calls.h) if that was kept, else 0; then its attributes, a JSON object, may follow. */
void region_enter(const struct _PyInterpreterFrame *f, struct region_slot *slot);
uint32_t region_leave(const struct region_slot *slot);
void region_note_attributes(uint32_t serial, const char *text, uint32_t length);

/* A region, on top of the frame that has entered it.  `is_new`: it is entered now.  NULL: no memory. */
struct exact_frame *region_push(struct exact *x, struct exact_thread *t, struct region_slot *slot,
                                bool is_new);

/* The generator or coroutine `f`, which is on top, goes on within the regions that it had entered. */
void region_resume(struct exact *x, struct exact_thread *t, const struct _PyInterpreterFrame *f);

#endif
