/* end_methods.h - the module's functions for the end of a run.  Context: with the GIL. */
#ifndef PYH_END_METHODS_H
#define PYH_END_METHODS_H

#include <Python.h>

/* prepare_exit, wait_at_exit, at_exit, on_leaving, spawn, spawn_orphan; the last one is empty. */
extern PyMethodDef end_methods[];

#endif
