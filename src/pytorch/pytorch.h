/* pytorch.h - what the files of the extension offer one another.
 */
#ifndef PYH_PYTORCH_H
#define PYH_PYTORCH_H

#include <stdbool.h>
#include <stdint.h>

#include "backward_work.h"

/* --- library.c ----------------------------------------------------------------------------------- */

/* enum class RecordScope */
#define SCOPE_FUNCTION 0
#define SCOPE_BACKWARD 1
#define SCOPE_USER 7

/* at::RecordFunctionCallback.  It is trivially copyable, so it is passed in memory, as in C; what versions may have at its end
 * is zero. */
struct record_callback {
    void *(*start)(void **context,
                   const void *record); /* returns a unique_ptr: `context` is its place */
    void (*end)(const void *record, void *context);
    double sampling_probability;
    bool scopes[10];
    bool needs_inputs, needs_outputs, needs_ids;
    bool unknown[24];
};

struct torch_library {
    uint64_t (*add_global_callback)(struct record_callback);
    uint64_t (*add_thread_callback)(struct record_callback);
    void (*remove_callback)(uint64_t);
    const char *(*name)(const void *record);
    uint64_t (*thread_id)(void);   /* of the calling thread, as records have it */
    uint64_t (*next_number)(void); /* that the calling thread's next autograd node gets */
    unsigned long tls_module;      /* for __tls_get_addr */
    uint64_t tls_bytes;
};

/* Finds the library that is loaded from `path`.  Returns NULL, or what is missing. */
const char *torch_library_find(struct torch_library *library, const char *path);

/* Returns its thread-local memory, that of the calling thread. */
const uint64_t *torch_library_tls(const struct torch_library *library, uint64_t offset);

/* --- shapes.c ------------------------------------------------------------------------------------ */

#define SHAPES_WORDS                                                                               \
    40 /* of the inputs of a call: all that is kept of more is that there were more */
#define SHAPES_NAME 64

struct shapes_entry {
    char name[SHAPES_NAME]; /* the operator's */
    uint32_t n_words;
    /* A tensor has its type << 32 | number of sizes, then these; another input ~0. */
    uint64_t word[SHAPES_WORDS];
    uint64_t n; /* calls that were looked at */
};

/* Begins the proof: until its end operators of the calling thread are noted, `with_inputs` or without. */
void shapes_proof_begin(const struct torch_library *library);
void shapes_proof_pass(bool with_inputs);

/* Adds a tensor: the address of its object, its sizes and strides, its type as ScalarType has it. */
void shapes_proof_tensor(uint64_t address, const uint64_t *sizes, const uint64_t *strides,
                         uint32_t n, uint32_t type);

/* The next operator has these inputs: addresses of tensors, 0: none. */
void shapes_proof_expect(const uint64_t *inputs, uint32_t n);

/* Ends the proof.  Returns NULL, or what is not proven. */
const char *shapes_proof_end(void);

struct shapes_place {
    uint32_t of;           /* the entry's number */
    uint32_t thread, node; /* as in struct maker */
    bool is_later;         /* an autograd node called it that was made there */
    uint64_t n;
};

/* Notes one call in 1 / `probability` from now on; the former notes are dropped. */
void shapes_note(double probability, const struct backward_api *api);
void shapes_stop(void);

/* Were they noted before: in an earlier session, or by the parent of this forked child? */
bool shapes_are_proven(void);

/* Returns the first one from the number *at on, which becomes its own; NULL: no more.  *n_lost is how many found no room. */
const struct shapes_entry *shapes_at(uint32_t *at, uint64_t *n_lost);

/* The same of the places at which they were called. */
const struct shapes_place *shapes_place_at(uint32_t *at);

/* --- memory.c ------------------------------------------------------------------------------------ */

#define MEMORY_TABLE (1u << 18) /* pieces of memory that live, of which more than half find room */
#define MEMORY_SITES (1u << 15) /* twice as many as calls */
#define MEMORY_PEAK_PART 100    /* what calls have at the peak is that of it, less such a part */

struct memory_totals {
    uint64_t alive, step_peak, peak, noted_peak; /* bytes */
    uint64_t n_lost, lost_bytes;                 /* found no room in the table */
};

struct memory_site {
    uint32_t thread, node; /* as in struct maker; 0: of no call that is known */
    bool is_later;         /* an autograd node did it that was made there */
    int64_t alive;         /* bytes */
    uint64_t allocated, calls;
    int64_t at_peak; /* bytes */
    int64_t kept;    /* when a backward pass began, the one with the most: of its forward pass */
    int64_t used;    /* of that, what was given back until it had ended */
};

struct memory_piece {
    uint64_t address, bytes;
    uint32_t step; /* in which it was given out */
};

/* Begins the proof with the library of this path, and ends it.  They return NULL, or what is missing or not proven. */
const char *memory_proof_begin(const char *path);
const char *memory_proof_end(const struct backward_api *api);

/* The calling thread has got so many bytes at that address just now. */
void memory_proof_compare(uint64_t address, uint64_t bytes);

/* Follows all that is given out from now on; what it knew is forgotten.  Returns NULL, or what is missing. */
const char *memory_start(void);
void memory_stop(void);

/* What there was until now; memory_step: a step begins. */
struct memory_totals memory_totals(void);
struct memory_totals memory_step(void);

/* The first forward pass since a backward one begins, a backward one does, or something else after that. */
enum memory_moment { MEMORY_FORWARD, MEMORY_BACKWARD, MEMORY_AFTER };
void memory_mark(enum memory_moment moment);

/* Returns false if there is none of this number, from 0 on. */
bool memory_site(uint32_t number, struct memory_site *to);

/* Returns how many pieces are alive of those of a call, the oldest `most` at most. */
uint32_t memory_alive_of(uint32_t number, struct memory_piece *to, uint32_t most);

/* --- struct_offsets.c ---------------------------------------------------------------------------- */

struct torch_places {
    uint32_t number;  /* of the node: bytes into the object */
    uint32_t maker;   /* the thread that made it */
    uint64_t counter; /* in the library's thread-local memory */
};

/* The proof lasts from proof_begin to proof_end, on the calling thread. */
void proof_begin(const struct torch_library *library);
void proof_end(void);

/* Call it where a node was made just now. */
void proof_compare(void);

/* `numbers` are those of the `n` nodes that ran, in turn.  Returns NULL, or what is not proven. */
const char *proof_of(const uint64_t *numbers, uint32_t n, struct torch_places *places);

#endif
