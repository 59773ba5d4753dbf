/* rules.h - the rules, and where functions begin, that were found before (cfi.h), by all threads: both depend on the address
 * alone.
 *
 * Where calls return to is met again and again, each address its own slot.  Where a thread is interrupted is hardly
 * ever met again, but the row of the unwind table around it is.
 *
 * Threads read and write without a lock.  A slot's second word is scattered over the first one, so a slot that is half
 * another's does not have the key that is asked for.  The key has an epoch in it: when libraries come or go a new one
 * begins, in which nothing is known.
 *
 * Context: async-signal-safe.
 */
#ifndef PYH_RULES_H
#define PYH_RULES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cfi.h"
#include "compiler.h"

#define RULES 16384

#define RULES_EPOCHS 128 /* after as many, they begin anew (rules_clear) */

/* 47..0 the address and 54..48 the epoch, exclusive-or the offsets, scattered; 58..55 cfa_kind; 60..59 bp_kind;
 * 62..61 bx_kind; 63 is_no_trampoline. */
struct rule_slot {
    _Atomic uint64_t head;
    _Atomic uint64_t offsets; /* 31..0 cfa_offset, 47..32 bp_offset, 63..48 bx_offset */
};
extern struct rule_slot rules_slots[RULES];

#define RULES_KEY_BITS 55
#define RULES_ADDRESS_BITS 48

static ALWAYS_INLINE uint64_t rules_key(uint32_t epoch, uint64_t pc)
{
    return pc ^ (uint64_t)(epoch % RULES_EPOCHS) << RULES_ADDRESS_BITS;
}

static ALWAYS_INLINE uint64_t rules_scatter(uint64_t word)
{
    return word * 0x9e3779b97f4a7c15ull >> (64 - RULES_KEY_BITS);
}

static ALWAYS_INLINE struct rule_slot *rules_slot(uint64_t pc)
{
    return &rules_slots[(pc ^ pc >> 12) % RULES];
}

static ALWAYS_INLINE struct cfi_rule rules_unpack(uint64_t head, uint64_t offsets)
{
    uint64_t kinds = head >> RULES_KEY_BITS;
    return (struct cfi_rule){.cfa_offset = (int32_t)offsets,
                             .bp_offset = (int16_t)(offsets >> 32),
                             .bx_offset = (int16_t)(offsets >> 48),
                             .cfa_kind = kinds & 15,
                             .bp_kind = kinds >> 4 & 3,
                             .bx_kind = kinds >> 6 & 3,
                             .is_no_trampoline = kinds >> 8};
}

/* Finds the rule in the rows, or in the table. */
struct cfi_rule rules_find_row(uint32_t epoch, uint64_t pc, bool is_return);

/* Returns the rule for `pc`; with `is_return`, that of a call, which will be met again. */
static ALWAYS_INLINE struct cfi_rule rules_find(uint32_t epoch, uint64_t pc, bool is_return)
{
    const struct rule_slot *slot = rules_slot(pc);
    uint64_t offsets = atomic_load_explicit(&slot->offsets, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&slot->head, memory_order_relaxed);
    uint64_t differs = (head ^ rules_scatter(offsets) ^ rules_key(epoch, pc))
                       << (64 - RULES_KEY_BITS);
    if (LIKELY(!(differs | pc >> RULES_ADDRESS_BITS)))
        return rules_unpack(head, offsets);
    return rules_find_row(epoch, pc, is_return);
}

/* Returns where the function around `pc` begins; `pc` if there is no unwind information. */
uint64_t rules_function(uint32_t epoch, uint64_t pc);

/* Keeps `rule` as that of `pc`. */
void rules_keep(uint32_t epoch, uint64_t pc, struct cfi_rule rule);

/* Forgets all that is known, sooner or later. */
void rules_clear(void);

#endif
