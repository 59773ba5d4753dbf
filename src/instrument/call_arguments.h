/* call_arguments.h - a call's arguments as the spool has them, like a region's attributes (region_attributes.h).
 *
 * Context: with the GIL, where the call begins.  Nothing of the program runs: values are told by their exact types
 * (value_text.h).
 */
#ifndef PYH_CALL_ARGUMENTS_H
#define PYH_CALL_ARGUMENTS_H

#include <Python.h>

#include "region_attributes.h"

/* Writes a field for each argument of `code`, whose frame is the innermost one; where there is no room for more, the last one
 * is `...`.  Returns how many bytes; 0: it has none. */
size_t call_arguments(PyCodeObject *code, unsigned char to[static REGION_ATTRIBUTES_MAX]);

#endif
