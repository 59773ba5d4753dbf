/* path_memo.h - native paths that were walked before.
 *
 * A walk from one eval loop's CFA (E0) up to the next one's (E1) is a function of the few stack words
 * it read: return addresses, and frame pointers where a CFA depended on one.  If all of them are what
 * they were, relative to E0, the walk would end as it did, as long as the eval loop that was called saves rbp where it
 * did.  Two ways, the older one is replaced; a thread that needs more sets gets more.
 *
 * Context: the exact half's callbacks; per thread.
 */
#ifndef PYH_PATH_MEMO_H
#define PYH_PATH_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call_tree.h"

#define MEMO_SETS 2
#define MEMO_SETS_MAX 2048
#define MEMO_WORDS 40
#define MEMO_RELATIVE 20
#define MEMO_STARTS 40 /* so many frames of a path are calls; those further in are functions */

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

struct memo_set {
    struct memo_entry way[2];
};

/* The last path that was too long for an entry, outermost frame first; one for all threads.  In a recursion of C code
 * that calls Python at each level the next one is mostly the same and a little more. */
struct memo_path {
    const struct exact_node *parent;
    uint64_t thread; /* its serial: another's nodes may take a dead one's place in memory */
    uint32_t epoch;  /* struct unwind's */
    uint32_t n;
    uint64_t start[MEMO_STARTS]; /* of the first ones' functions; 0: of none */
    struct {
        uint64_t pc; /* or struct native_frame's flags */
        struct exact_node *node;
    } step[EXACT_NATIVE_MAX];
};

#endif
