/* memo.h - native paths that were walked before.
 *
 * A walk from one eval loop's CFA (E0) up to the next one's (E1) is a function of the few stack words
 * it read: return addresses, and frame pointers where a CFA depended on one.  If all of them are what
 * they were, relative to E0, the walk would end as it did, as long as the eval loop that was called saves rbp where it
 * did.  Two ways, the older one is replaced.
 *
 * Context: the exact half's callbacks; per thread.
 */
#ifndef PYH_MEMO_H
#define PYH_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exact.h"

#define MEMO_SETS 512
#define MEMO_WORDS 40
#define MEMO_RELATIVE 20

/* A stack word that a walk read. */
struct memo_word {
    uint32_t offset; /* from the lowest address that was read, in words */
    uint64_t value;  /* of an address in the stack: minus that lowest address */
};

struct memo_entry {
    const struct exact_node *parent; /* NULL: free */
    uint64_t distance;               /* to where the walk stops, and in the upper 16 bits to rbp */
    struct exact_node *node;         /* where the walk led */
    uint32_t reach;                  /* how far below E0 the lowest address lies */
    uint32_t n_plain, n_relative;    /* words: return addresses, then addresses in the stack */
    struct memo_word plain[MEMO_WORDS], relative[MEMO_RELATIVE];
};

/* The last path that was too long for an entry, outermost frame first.  In a recursion of C code that calls Python
 * at each level the next one is mostly the same and a little more. */
struct memo_path {
    const struct exact_node *parent;
    uint32_t epoch; /* struct unwind's */
    uint32_t n;
    uint64_t pc[EXACT_NATIVE_MAX]; /* or struct native_frame's flags */
    struct exact_node *node[EXACT_NATIVE_MAX];
};

struct memo {
    struct memo_entry entry[MEMO_SETS][2];
    struct memo_path path;
};

#endif
