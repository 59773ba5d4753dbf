/* caller_stacks.h - the stack that a sample's own words hang below: the path of a node of the exact half, with the
 * instructions that the sampler noted (sampler/callers.h).
 *
 * What the thread's last sample had is kept, place by place: mostly only the innermost ones are others.
 *
 * Context: as drain.h.
 */
#ifndef PYH_CALLER_STACKS_H
#define PYH_CALLER_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct canonical;
struct codes;
struct sample_record;
struct stacks;

struct caller_stacks {
    struct {
        uint32_t node, stack;
        uint64_t word; /* raw; 0: without an instruction */
    } *place;          /* the outermost first */
    size_t bytes;
    uint32_t n_places, n_stacks;    /* that are known; whose stack is known, too */
    uint32_t base_node, base_stack; /* of the last sample; 0: not known */
};

/* From one node up to another: room for it, whatever thread's. */
struct way_up {
    uint32_t *node;
    size_t bytes;
};

/* Addresses may mean other libraries now. */
void caller_stacks_forget(struct caller_stacks *c);
void caller_stacks_free(struct caller_stacks *c);

/* The stack of r->base_node, in `tree`.  False: not yet, for a code object's record has not come (with `now`, it goes
 * without). */
bool caller_stacks_find(struct caller_stacks *c, struct way_up *way, struct stacks *tree,
                        struct canonical *words, const struct codes *codes,
                        const struct sample_record *r, bool now, uint32_t *stack);

#endif
