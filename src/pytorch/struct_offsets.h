/* struct_offsets.h - where a RecordFunction object and a thread's memory have what is not exported.
 *
 * While operators run whose nodes' numbers are known, all objects are noted, and all words of the thread's memory compared with
 * the counter.  A place counts if it alone has the right value each time, and the values differ.
 *
 * Context: one thread, with the GIL.
 */
#ifndef PYH_TORCH_STRUCT_OFFSETS_H
#define PYH_TORCH_STRUCT_OFFSETS_H

#include "library.h"

struct torch_places {
    uint32_t number;  /* of the node: bytes into the object */
    uint32_t maker;   /* the thread that made it */
    uint64_t counter; /* in the library's thread-local memory */
};

/* From now on, on the calling thread; until proof_end. */
void proof_begin(const struct torch_library *library);
void proof_end(void);

/* A node was made just now. */
void proof_compare(void);

/* `numbers`: those of the `n` nodes that ran, in turn.  NULL, or what is not proven. */
const char *proof_of(const uint64_t *numbers, uint32_t n, struct torch_places *places);

#endif
