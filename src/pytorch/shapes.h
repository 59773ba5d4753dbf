/* shapes.h - with which shapes operators are called: one call in a hundred, by RecordFunction's own sampling.
 *
 * Where a record has its inputs, and a tensor its sizes and type, is not exported: it is proven at run time with tensors of known
 * sizes.  Each word is looked at, and a place counts if it alone has the right value each time.
 *
 * Context: the proof on one thread, with the GIL; what is noted on any thread, with or without it.
 */
#ifndef PYH_TORCH_SHAPES_H
#define PYH_TORCH_SHAPES_H

#include "library.h"

#define SHAPES_WORDS                                                                               \
    40 /* of the inputs of a call: all that is kept of more is that there were more */
#define SHAPES_NAME 64

struct shapes_entry {
    char name[SHAPES_NAME]; /* the operator's */
    uint32_t n_words;
    /* Of each tensor its type << 32 | number of sizes, then these; of another input ~0. */
    uint64_t word[SHAPES_WORDS];
    uint64_t n; /* calls that were looked at */
};

/* The proof begins.  Until its end operators of the calling thread are noted, `with_inputs` or without. */
void shapes_proof_begin(const struct torch_library *library);
void shapes_proof_pass(bool with_inputs);

/* A tensor: the address of its object, its sizes and strides, its type as ScalarType has it. */
void shapes_proof_tensor(uint64_t address, const uint64_t *sizes, const uint64_t *strides,
                         uint32_t n, uint32_t type);

/* The next operator has these inputs: addresses of tensors, 0: none. */
void shapes_proof_expect(const uint64_t *inputs, uint32_t n);

/* NULL, or what is not proven. */
const char *shapes_proof_end(void);

/* From now on one call in 1 / `probability` is noted; the former notes are dropped. */
void shapes_note(double probability);
void shapes_stop(void);

/* One after another; NULL: no more.  *n_lost: how many found no room. */
const struct shapes_entry *shapes_at(uint32_t i, uint64_t *n_lost);

#endif
