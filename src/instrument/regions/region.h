/* region.h - the type behind `pyhybrid.region`, and what regions have in common with those of native code.
 *
 * Context: with the GIL, unless it says otherwise.
 */
#ifndef PYH_REGION_H
#define PYH_REGION_H

#include <Python.h>

/* Adds the type to `module`.  `generation` counts the sessions (0: none runs), each of which hears a name once: its spool
 * by `announce`, which needs no GIL, its sinks by `emit`. */
struct region_session {
    uint32_t (*generation)(void);
    void (*announce)(uint32_t id, const char *name, uint32_t length);
    void (*emit)(uint32_t id, const char *name, uint32_t length);
};
/* As `__enter__`, in the innermost function that is none of ours: that of a `with` whose object is. */
PyObject *region_enter_caller(PyObject *module, PyObject *region);

int region_add_type(PyObject *module, const struct region_session *session);

/* That of a name, which the session that runs has heard then.  0: with an exception set. */
uint32_t region_announced(PyObject *name);

/* One that no other name has.  Any thread, without the GIL. */
uint32_t region_new_number(void);

#endif
