/* chain.h - chains of calls through functions of every kind of frame, and what is known of them.
 *
 * Two oracles: each link notes its own CFA and return address (the compiler knows them), and
 * libunwind, where it is installed, walks from the same registers.
 */
#ifndef PYH_TEST_CHAIN_H
#define PYH_TEST_CHAIN_H

#include "walk.h"

#define LINK __attribute__((noipa)) void
#define USE(p) __asm__ volatile("" : : "r"(p) : "memory")

struct note {
    uint64_t cfa, return_address; /* CFA 0: not known */
    bool by_other_code;           /* what called this is not a link of the chain */
};

typedef void link_function(void);

extern link_function *const *chain; /* the links to come */
extern struct note notes[32];       /* outermost first */
extern size_t n_notes;
extern struct walk ours, theirs; /* by unwind.c, by libunwind */

/* What a link does: it notes itself, and calls the next one. */
#define NOTE_WITH(cfa, by_other)                                                                   \
    notes[n_notes++] = (struct note)                                                               \
    {                                                                                              \
        cfa, (uint64_t)__builtin_return_address(0), by_other                                       \
    }
#define NOTE(by_other) NOTE_WITH((uint64_t)__builtin_dwarf_cfa(), by_other)
#define NEXT()                                                                                     \
    do {                                                                                           \
        (*chain++)();                                                                              \
        NO_TAIL_CALL();                                                                            \
    } while (0)

link_function plain, framed, frameless, variable_size, aligned, aligned_variable_size, large,
    with_stack_arguments, through_qsort, through_a_signal;

/* The last one: makes `ours` and `theirs`. */
link_function compare_walks;

/* The handler that through_a_signal() installs for SIGUSR1. */
void chain_on_signal(int signal);

/* Calls the first of `links`. */
void chain_run(link_function *const *links);

/* The innermost frames of `ours` must be the noted ones. */
void chain_check_notes(void);

/* How the frames of `a` and `b` differ, or NULL.  The CFA of a signal's trampoline is a matter of
 * convention: its frame ends where the ucontext does. */
const char *chain_difference(const struct walk *a, const struct walk *b);

#ifdef HAVE_LIBUNWIND
size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max,
                          enum unwind_end *end);
#endif

#endif
