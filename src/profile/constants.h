/* constants.h - what Python must know of the spool and of a frame's word, from the headers that declare it.
 *
 * Context: the module's initialisation, with the GIL.
 */
#ifndef PYH_CONSTANTS_H
#define PYH_CONSTANTS_H

#define Py_LIMITED_API 0x030c0000
#include <Python.h>

/* Adds numbers by their names, SPOOL_TYPES (of the records, by name) and SPOOL_STRUCTS (formats of the module `struct`,
 * by name: little endian, without the fields that are padding).  -1 with an exception set. */
int constants_add(PyObject *module);

#endif
