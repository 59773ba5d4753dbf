/* canonical.h - from raw frame words to canonical ones (frame.h), and what the spool must know of them: code
 * objects, modules, the functions of native addresses.
 *
 * Context: the drain thread; never needs the GIL.
 */
#ifndef PYH_CANONICAL_H
#define PYH_CANONICAL_H

#include <stdbool.h>
#include <stdint.h>

#include "modules.h"

struct code_record;
struct spool;
struct words;

struct words *words_new(struct spool *s); /* NULL: no memory */
void words_free(struct words *w);

/* A code object was met for the first time. */
void words_take_code(struct words *w, const struct code_record *r);

/* The canonical word; 0 if the code object's record has not come yet. */
uint64_t words_canonical(struct words *w, uint64_t raw);

/* The canonical word of the function that starts there, if a word was of it; else 0. */
uint64_t words_function(const struct words *w, uint64_t start);

/* Before and after a pass.  words_begin says whether libraries were loaded, or what was known by address holds no
 * more (MODULES_WENT). */
enum modules_change words_begin(struct words *w);
void words_end(struct words *w);

#endif
