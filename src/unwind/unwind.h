/* unwind.h - the native frames of a thread, from a register set up to the thread's root.
 *
 * A frame is its pc and its CFA; it owns the stack bytes from the CFA of the frame below it
 * up to its own.  Code without unwind information (JIT, hand-written assembly) is passed
 *
 *   - by the nearest return address from which unwinding lands exactly on an address that is
 *     known: an anchor, or the thread's root where there is none.  Anchors are CPython's entry
 *     frames, locals of the eval loop at a constant distance from its CFA;
 *   - else at the anchor itself: the frames up to it are missing;
 *   - where there is no anchor and the root is not met, by the nearest return address that looks
 *     like one: frames may be missing.
 *
 * Each leaves a frame that shows it.  Every load is inside proven stack bounds or guarded.
 *
 * Context: async-signal-safe.
 */
#ifndef PYH_UNWIND_H
#define PYH_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch_x86_64.h"
#include "cfi.h"

enum native_flag {
    NATIVE_GAP_ANCHORED = 1, /* frames are missing, up to an anchor */
    NATIVE_GAP_SCANNED = 2,  /* the way on was found, and lands exactly */
    NATIVE_GAP_GUESSED = 4,  /* the way on was guessed */
};

struct native_frame {
    uint64_t pc; /* 0: a gap, up to the CFA */
    uint64_t cfa;
    uint64_t flags; /* enum native_flag */
};

enum unwind_end { UNWIND_COMPLETE, UNWIND_TRUNCATED, UNWIND_TOO_DEEP };

/* Where the frame that holds an anchor lies relative to it; constant per interpreter build. */
struct anchor_rule {
    int64_t cfa;           /* CFA = anchor + cfa; 0: not known, anchors are not used */
    struct cfi_rule saved; /* the frame's own rule: where rbp and rbx are saved */
};

struct unwind {
    uint32_t epoch;                 /* of what is loaded; 0: not looked at yet */
    uint64_t stack_low, stack_high; /* proven readable */
    bool stack_is_foreign;          /* not the thread's own (stack_bounds.h) */
    const uint64_t *anchors;        /* ascending */
    size_t n_anchors;
    const struct anchor_rule *anchor_rule;
    /* The walk is complete with the frame whose CFA is `stop_cfa`, or up to `stop_slack` above it; 0: at the root. */
    uint64_t stop_cfa, stop_slack;
    unsigned guarded_loads, scan_steps; /* spent in this walk */
    uint64_t loaded;                    /* what the last guarded load found */
};

static inline bool unwind_is_stop(const struct unwind *u, uint64_t cfa)
{
    return cfa - u->stop_cfa <= u->stop_slack;
}

/* Takes one step, a frame outwards.  `kind` is as in the rule.  Returns false if that is not possible; `cfa` means
 * nothing then. */
bool unwind_step(struct unwind *u, struct unwind_regs *regs, uint64_t *cfa, enum cfa_kind *kind);

/* Returns the rule for `pc`, where a call was made. */
struct cfi_rule unwind_rule(const struct unwind *u, uint64_t pc);

/* Returns where the function around `pc`, where a call was made, begins; `pc` if there is no unwind information. */
uint64_t unwind_function(const struct unwind *u, uint64_t pc);

/* Call unwind_forget_all where libraries were loaded or unloaded: no rule that was found before holds, from the next
 * unwind_refresh on, at the beginning of a walk. */
void unwind_forget_all(void);
void unwind_refresh(struct unwind *u);

/* Finds the registers of the caller of the eval loop whose CFA is `cfa`.  Returns false if they cannot be read. */
bool unwind_from_anchor(struct unwind *u, uint64_t cfa, struct unwind_regs *regs);

/* Finds at most `max` frames, innermost first.  Returns how many, and how the walk ended. */
size_t unwind_walk(struct unwind *u, const struct unwind_regs *start, struct native_frame *out,
                   size_t max, enum unwind_end *end);

#endif
