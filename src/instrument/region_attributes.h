/* region_attributes.h - a region's attributes as the spool has them.
 *
 * Context: with the GIL.  Nothing of the program runs: what is not a plain number or text is told by its type.
 */
#ifndef PYH_REGION_ATTRIBUTES_H
#define PYH_REGION_ATTRIBUTES_H

#include <Python.h>

#include <stdbool.h>

#define REGION_ATTRIBUTES_MAX 1024 /* bytes; who has more has none */

/* Writes one more field, a text, at to[*n], which goes on.  False: `max` bytes have no room for it. */
bool region_attributes_add(unsigned char *to, size_t max, size_t *n, PyObject *name,
                           const char *text);

/* Writes the fields (struct spool_attribute) of a dict whose keys are texts; returns how many bytes, 0 for too many. */
size_t region_attributes(PyObject *attributes, unsigned char to[static REGION_ATTRIBUTES_MAX]);

#endif
