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
struct canonical;

struct canonical *canonical_new(struct spool *s); /* NULL: no memory */
void canonical_free(struct canonical *w);

/* A code object was met for the first time. */
void canonical_take_code(struct canonical *w, const struct code_record *r);

/* The canonical word; 0 if the code object's record has not come yet. */
uint64_t canonical_word(struct canonical *w, uint64_t raw);

/* The canonical word of the function that starts there, if a word was of it; else 0. */
uint64_t canonical_function(const struct canonical *w, uint64_t start);

/* Before and after a pass.  canonical_begin says whether libraries were loaded, or what was known by address holds no
 * more (MODULES_WENT). */
enum modules_change canonical_begin(struct canonical *w);
void canonical_end(struct canonical *w);

#endif
