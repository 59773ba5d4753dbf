/* value_text.h - what values, exceptions and callables look like, in few characters.  Runs no code of the program's but
 * by value_repr, sets no exception.
 *
 * Context: with the GIL.
 */
#ifndef PYH_EMIT_VALUE_TEXT_H
#define PYH_EMIT_VALUE_TEXT_H

#include <Python.h>

#define VALUE_TEXT_BYTES 200 /* with the 0 byte: as many as bpftrace reads at most */

/* Writes the value by its exact type: `None`, `5`, `1.25`, `'text'`, `<list of 3>`, `ValueError: its only argument`,
 * else `<type>`. */
void value_text(char to[VALUE_TEXT_BYTES], PyObject *value);

/* Writes its repr(), which is the program's code: others may have the GIL meanwhile.  Does as value_text if that
 * fails. */
void value_repr(char to[VALUE_TEXT_BYTES], PyObject *value);

/* Writes the qualified name of a function, `list.append`, the name of a class; else `<type>`. */
void value_callable(char to[VALUE_TEXT_BYTES], PyObject *callable);

#endif
