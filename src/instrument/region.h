/* region.h - the type behind `pyhybrid.region`.
 *
 * Context: with the GIL.
 */
#ifndef PYH_REGION_H
#define PYH_REGION_H

#include <Python.h>

/* Adds the type to `module`.  `announce` tells the running session of a name (once for each session,
 * `generation` counts them; 0: none runs).  0 or -1 with an exception set. */
struct region_session {
    uint32_t (*generation)(void);
    void (*announce)(uint32_t id, const char *name, uint32_t length);
};
int region_add_type(PyObject *module, const struct region_session *session);

#endif
