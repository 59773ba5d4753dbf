/* path_memo.h - native paths that were walked before.
 *
 * A walk from one eval loop's CFA (E0) up to the next one's (E1) is a function of the few stack words
 * it read: return addresses, and frame pointers where a CFA depended on one.  If all of them are what
 * they were, the walk would end as it did, as long as the eval loop that was called saves rbp where it did.
 *
 * A memo keeps whole paths, by these words relative to E0: those that are met again and again, as where a loop calls C code
 * that calls back.  Two ways; where those that are replaced were met again, a thread gets more sets, and where they were
 * not, most new paths are not kept at all.
 *
 * A trail is the last path below a Python function, by frames, from the outermost one: where compiled code has a deep stack and
 * calls Python from ever other places of it, the next path mostly has the same outer frames, and is walked up to these.
 *
 * Context: the exact half's callbacks, with the GIL; memos per thread.
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
#define MEMO_SKIPS_MAX 63

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
    uint8_t was_met;                 /* again, since it is here */
    uint32_t n_plain, n_relative;    /* words: return addresses, then addresses in the stack */
    struct memo_word plain[MEMO_WORDS], relative[MEMO_RELATIVE];
};

struct memo_set {
    struct memo_entry way[2];
};

/* A frame of a walk.  The first of a trail is the outer eval loop's. */
struct path_step {
    uint64_t pc; /* where it calls */
    uint64_t cfa;
    uint64_t bp_at, bp; /* where it saves its caller's rbp, 0: nowhere; that rbp */
    struct exact_node *node;
    uint64_t start;   /* of its function; 0: not sought yet */
    bool uses_bp;     /* its CFA is relative to rbp */
    bool depends;     /* so is its own or a further one's, before another rbp is restored */
    bool restores_bp; /* on which the CFA of a further one depends */
};

#define TRAILS 8
#define TRAIL_LEAST 8 /* frames of a walk that is worth one */

struct path_trail {
    const struct exact_node *parent;
    uint64_t thread; /* its serial: another's nodes may take a dead one's place in memory */
    uint64_t stop;   /* the outer eval loop's CFA */
    uint32_t epoch;  /* struct unwind's */
    uint32_t n;
    uint32_t first; /* of the steps that have nodes of their own */
    struct path_step step[EXACT_NATIVE_MAX];
};

/* What all threads share: who has the GIL walks. */
struct paths {
    struct native_frame native[EXACT_NATIVE_MAX];
    struct path_step walk[EXACT_NATIVE_MAX]; /* innermost frame first */
    struct path_trail trail[TRAILS], none;   /* the last one: of a walk that is worth none */
};

#endif
