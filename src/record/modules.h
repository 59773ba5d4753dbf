/* modules.h - which library is mapped where, now and before.
 *
 * Each load of a library is a module with a number of its own, so that an address keeps its
 * meaning after dlclose and a new dlopen in the same place.
 *
 * Context: the drain thread.  dl_iterate_phdr holds the loader's lock for a moment; while it does,
 * nothing here allocates, writes or waits.
 */
#ifndef PYH_MODULES_H
#define PYH_MODULES_H

#include <stdint.h>

struct modules;
struct spool;

enum modules_change { MODULES_SAME, MODULES_CAME, MODULES_WENT /* and perhaps came */ };

struct modules *modules_new(void); /* NULL: no memory */
void modules_free(struct modules *m);

/* Looks for changes (a few hundred ns if there are none); new modules and ends of old ones go to
 * the spool. */
enum modules_change modules_update(struct modules *m, struct spool *s);

/* Forgets, for modules_word, the modules that ended: call it when all samples taken before the
 * last modules_update are through. */
void modules_drop_ended(struct modules *m);

/* The canonical frame word of a native address (frame.h). */
uint64_t modules_word(const struct modules *m, uint64_t pc);

#endif
