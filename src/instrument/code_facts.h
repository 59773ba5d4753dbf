/* code_facts.h - what is told of a function whose single calls are kept, beside its name: once a function.
 *
 * Context: with the GIL; none of the program's code runs.
 */
#ifndef PYH_CODE_FACTS_H
#define PYH_CODE_FACTS_H

#include <Python.h>

#include "call_tree.h"

#define CODE_FACTS_MAX (64u << 10) /* bytes; a function with more variables has fewer in the file */

/* `module`: where it runs, or NULL.  Leaves no exception set. */
void code_facts_tell(struct exact *x, const PyCodeObject *code, PyObject *module);

#endif
