/* region_stack.h - regions on the shadow stack, and what they are made of.
 */
#ifndef PYH_REGION_STACK_H
#define PYH_REGION_STACK_H

#include <Python.h>

#include <stdbool.h>
#include <stddef.h>

#include "call_tree.h"
#include "regions.h"
#include "turns.h"

/* --- region_attributes.c ------------------------------------------------------------------------- */

#define REGION_ATTRIBUTES_MAX 1024 /* bytes; who has more has none */

/* Writes one more field, a text, at to[*n], and moves *n on.  Returns false if `max` bytes have no room for it. */
bool region_attributes_add(unsigned char *to, size_t max, size_t *n, PyObject *name,
                           const char *text);

/* Writes the fields (struct spool_attribute) of a dict whose keys are texts; returns how many bytes, 0 for too many. */
size_t region_attributes(PyObject *attributes, unsigned char to[static REGION_ATTRIBUTES_MAX]);

/* --- region_list.c ------------------------------------------------------------------------------- */

/* Returns a slot that is to be the new innermost one, and is in the list from region_list_add on.  NULL: no memory. */
struct region_slot *region_list_next(uint64_t word, uint64_t frame, uint64_t code, bool is_native);
void region_list_add(const struct region_slot *slot);

/* Takes away empty slots at its end. */
void region_list_trim(struct regions *r);

/* --- region_stack.c ------------------------------------------------------------------------------ */

struct _PyInterpreterFrame;
struct region_slot;

/* The frame `f`, the innermost one, enters a region; a region ends.  leave: the serial of its call
 * (kept_calls.h) if that was kept, else 0; then its attributes (region_attributes.c) may follow. */
void region_enter(const struct _PyInterpreterFrame *f, struct region_slot *slot);
uint32_t region_leave(const struct region_slot *slot);
void region_note_attributes(uint32_t serial, const unsigned char *fields, uint32_t length);

/* Ends what `f` had entered and never left: `f` ends, or another begins in its place in memory. */
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

/* Ends what stood on native regions that have been popped. */
void region_end_left(struct exact *x, struct exact_thread *t, uint64_t now);

#endif
