/* region.h - the type behind `pyhybrid.region`, and what regions have in common with those of native code.
 *
 * Context: with the GIL, unless otherwise stated.
 */
#ifndef PYH_REGION_H
#define PYH_REGION_H

#include <Python.h>

/* What region_add_type needs.  `generation` counts the sessions (0: none runs), each of which gets a name once: its
 * spool by `announce`, which needs no GIL, its sinks by `emit`. */
struct region_session {
    uint32_t (*generation)(void);
    void (*announce)(uint32_t id, const char *name, uint32_t length);
    void (*emit)(uint32_t id, const char *name, uint32_t length);
};
/* Enters as `__enter__` does, in the innermost function that is none of ours: that of a `with` whose object is. */
PyObject *region_enter_caller(PyObject *module, PyObject *region);

/* Adds the type to `module`. */
int region_add_type(PyObject *module, const struct region_session *session);

/* Returns the number of a name, which the session that runs has from then on; 0 with an exception set. */
uint32_t region_announced(PyObject *name);

/* Returns a number that no other name has.  It may be called on any thread, without the GIL. */
uint32_t region_new_number(void);

#endif
