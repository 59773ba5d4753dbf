/* codes.h - which code objects have been seen, and under which id.
 *
 * A code object's address is not its identity: it dies and another takes its place, perhaps
 * between a sample and its reading.  So the handler interns it when it is sampled (then it is
 * alive): the first time its names are copied (pyframe_read_code); CPython's code watcher takes it
 * out when it dies, and the next one at that address gets another id.
 *
 * The table is one array of 64-bit slots, (address, generation) each, changed by compare-and-swap
 * only; an id is (slot, generation).  Its upper half is touched where the lower one is full.
 *
 * Programs make the same functions again and again (exec, namedtuple, templates, compilers of graphs).  So beside its
 * id a code object has two numbers, of its contents, which stay when it dies: those of the same file, first line and
 * qualified name are one function; those that agree in their line table, too, have one number.  Both are places of
 * hashes in a second table, from which nothing is removed, with two halves, too.  So some 500,000 functions are
 * distinguished, of 250,000 code objects at a time; what is beyond is [unknown python].
 *
 * Context: all are async-signal-safe and callable from any thread at once, except that
 * codes_forget needs the GIL, and codes_new and codes_free ordinary context.
 */
#ifndef PYH_CODES_H
#define PYH_CODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODES_SLOT_BITS 18
#define CODES_SLOTS (1u << CODES_SLOT_BITS)
#define CODES_GENERATION_BITS 19
#define CODES_NUMBER_BITS 20 /* as many as a function's word has (frame.h) */
#define CODES_NUMBERS (1u << CODES_NUMBER_BITS)

/* A slot: address >> 3 above the bits of its generation.  0: never used.  Address 0: the object is
 * gone, a probe goes on. */
struct codes {
    _Atomic uint64_t slot[CODES_SLOTS];
    _Atomic uint64_t numbers[CODES_SLOTS];  /* the generation that the numbers are of, and these */
    _Atomic uint64_t number[CODES_NUMBERS]; /* hashes; 0 is never used */
};

/* The numbers of a code object's contents; 0: not known. */
struct code_numbers {
    uint32_t number, function;
};

struct codes *codes_new(void); /* NULL: no memory */
void codes_free(struct codes *c);

/* Returns the id of the code object at `address`, or 0 if it is not in the table. */
uint64_t codes_find(const struct codes *c, uint64_t address);

/* Adds the code object and returns its id, or 0 if there is no room near its place.  `*added` is false if another
 * thread was faster. */
uint64_t codes_add(struct codes *c, uint64_t address, bool *added);

struct code_record;

/* The same for the code object whose names, `bytes` in all, are in `r`: its numbers are set there.  *is_new is true if
 * no code object with these contents was seen before, so the record is to go to the drain.  Returns 0 if there is no
 * room for it or for the numbers. */
uint64_t codes_intern(struct codes *c, uint64_t address, struct code_record *r, size_t bytes,
                      bool *is_new);

/* Returns the numbers of the code object that has `id`. */
struct code_numbers codes_numbers(const struct codes *c, uint64_t id);

/* Returns whether `id` (not 0) is still the id of the code object at `address`. */
static inline bool codes_holds(const struct codes *c, uint64_t id, uint64_t address)
{
    uint64_t value = atomic_load_explicit(&c->slot[id & (CODES_SLOTS - 1)], memory_order_relaxed);
    return value == (address >> 3 << CODES_GENERATION_BITS | id >> CODES_SLOT_BITS);
}

/* Returns the address of the code object in a slot, or 0 if there is none. */
static inline uint64_t codes_at(const struct codes *c, uint32_t slot)
{
    return atomic_load_explicit(&c->slot[slot], memory_order_relaxed) >> CODES_GENERATION_BITS << 3;
}

/* Takes out the object at `address`, which is about to be freed, or just made: a sample whose links are stale may have
 * met the one before it after its death. */
void codes_forget(struct codes *c, uint64_t address);

#endif
