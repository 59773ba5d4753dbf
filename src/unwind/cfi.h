/* cfi.h - from a code address to the rule that unwinds one frame.
 *
 * The rule comes from .eh_frame: libraries.h finds the module,
 * .eh_frame_hdr's table the FDE, whose call frame instructions are executed in place up to the
 * address (DWARF 5 section 6.4; System V AMD64 ABI section 3.7; LSB 5.0 "Exception Frames").
 * Only what an x86-64 unwinder needs is tracked: the CFA, the return address, rbp and rbx (which
 * is a CFA register in _dl_runtime_resolve).
 *
 * Context: async-signal-safe.  No lock, no allocation.
 */
#ifndef PYH_CFI_H
#define PYH_CFI_H

#include <stdbool.h>
#include <stdint.h>

enum cfa_kind {
    CFA_NONE, /* no unwind information here, or of a kind that is not understood */
    CFA_RSP,  /* rsp + offset */
    CFA_RBP,
    CFA_RBX,
    CFA_R10,
    CFA_RBP_DEREF, /* *(rbp + offset): realigned stacks */
    CFA_PLT,       /* rsp + 8, and 8 more from byte `offset` of a 16-byte PLT entry on */
    CFA_SIGNAL,    /* a signal frame: the registers lie in a ucontext at rsp */
    CFA_END,       /* the return address is undefined: the thread's root */
};

enum saved_kind { SAVED_SAME, SAVED_AT_CFA, SAVED_AT_RBP };

struct cfi_rule {
    int32_t cfa_offset;
    int16_t bp_offset;
    int16_t bx_offset;
    uint8_t cfa_kind; /* enum cfa_kind */
    uint8_t bp_kind;  /* enum saved_kind */
    uint8_t bx_kind;
    bool is_no_trampoline; /* without unwind information: its bytes have been looked at */
};

/* A rule and the addresses for which it holds, one row of the table that .eh_frame encodes. */
struct cfi_row {
    uint64_t start, end;
    struct cfi_rule rule;
};

/* Fills `rule` for the frame that executes at `pc`.  It never fails: CFA_NONE means "unknown". */
void cfi_find(uint64_t pc, struct cfi_rule *rule);

/* The same with the whole row; where there is no unwind information it is `pc` alone. */
void cfi_find_row(uint64_t pc, struct cfi_row *row);

/* Returns whether the call at `pc` (its return address - 1), of code without unwind information, is CPython's perf
 * trampoline's; then it fills `rule`.  It makes a system call. */
bool cfi_find_trampoline(uint64_t pc, struct cfi_rule *rule);

/* Finds the function (FDE) around `pc`.  Returns false if there is no unwind information. */
bool cfi_function(uint64_t pc, uint64_t *start, uint64_t *end);

/* Returns whether `address` lies in a module that is loaded now (a cached rule may be of one that was). */
bool cfi_is_mapped(uint64_t address);

#endif
