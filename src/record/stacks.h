/* stacks.h - stacks, interned: each is (parent stack, frame word) and has a small number.
 *
 * Ids count from 1; 0 is the root; a parent's id is smaller than its children's.  The tree is
 * bounded: beyond `max` nodes a new path ends in a [tree full] child of the last node that exists,
 * so that totals stay right.
 *
 * Context: the drain thread.
 */
#ifndef PYH_STACKS_H
#define PYH_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"

struct stacks {
    uint32_t *parent; /* [id] */
    uint64_t *word;   /* [id] */
    uint32_t n;       /* ids 1..n exist */
    uint32_t max, capacity;
    uint32_t *table; /* ids by hash, 0: free */
    uint32_t mask;
    uint64_t n_full; /* paths that met the bound */
};

int stacks_init(struct stacks *t, uint32_t max); /* 0 or -ENOMEM */
void stacks_free(struct stacks *t);

/* Returns the child of `parent` with `word`.  At the bound *full is 1, and the id is that of a [tree full]
 * node under which nothing must be looked for. */
uint32_t stacks_child(struct stacks *t, uint32_t parent, uint64_t word, int *full);

static inline bool stacks_is_full(const struct stacks *t, uint32_t id)
{
    return t->word[id] == frame_pseudo(PSEUDO_TREE_FULL);
}

#endif
