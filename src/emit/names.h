/* names.h - what functions, regions and values are called, as UTF-8 that outlives them.  Runs no code of the program's,
 * sets no exception.
 *
 * Context: with the GIL.
 */
#ifndef PYH_EMIT_NAMES_H
#define PYH_EMIT_NAMES_H

#include <Python.h>

#include "sink.h"

/* They return a new one; NULL: no memory. */
const struct emit_function *names_of_code(const PyCodeObject *code, uint32_t id);
const struct emit_function *names_of_region(const char *name, uint32_t length, uint32_t id);
void names_free(const struct emit_function *f);

/* Writes a thread's name, as it is shown. */
void names_shown(char *to, size_t size, const char *name);

/* Writes a character as UTF-8, a lone surrogate as three bytes, and moves *to on. */
#define NAMES_CHARACTER_BYTES 4
void names_append(char **to, Py_UCS4 c);

#endif
