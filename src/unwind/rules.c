#include "rules.h"

#define ROWS 4096

struct row_slot {
    _Atomic uint64_t head, offsets, start,
        end; /* the first two as in struct rule_slot, for `start` */
};

#define FUNCTIONS 8192

struct function_slot {
    _Atomic uint64_t head, start; /* the first as in struct rule_slot, without kinds */
};

struct rule_slot rules_slots[RULES];
static struct function_slot functions[FUNCTIONS];
static struct row_slot rows[ROWS];

#define LOAD(place) atomic_load_explicit(&(place), memory_order_relaxed)
#define STORE(place, value) atomic_store_explicit(&(place), value, memory_order_relaxed)

static uint64_t pack_head(uint32_t epoch, uint64_t pc, const struct cfi_rule *r)
{
    uint64_t kinds = r->cfa_kind | (uint64_t)r->bp_kind << 4 | (uint64_t)r->bx_kind << 6 |
                     (uint64_t)r->is_no_trampoline << 8;
    return rules_key(epoch, pc) | kinds << RULES_KEY_BITS;
}

static uint64_t pack_offsets(const struct cfi_rule *r)
{
    return (uint32_t)r->cfa_offset | (uint64_t)(uint16_t)r->bp_offset << 32 |
           (uint64_t)(uint16_t)r->bx_offset << 48;
}

void rules_keep(uint32_t epoch, uint64_t pc, struct cfi_rule rule)
{
    if (pc >> RULES_ADDRESS_BITS)
        return;
    struct rule_slot *slot = rules_slot(pc);
    uint64_t offsets = pack_offsets(&rule);
    STORE(slot->head, pack_head(epoch, pc, &rule) ^ rules_scatter(offsets));
    STORE(slot->offsets, offsets);
}

static uint64_t scatter_row(uint64_t offsets, uint64_t start, uint64_t end)
{
    return rules_scatter(offsets) ^ rules_scatter(~(end - start));
}

static void keep_row(struct row_slot *slot, uint32_t epoch, const struct cfi_row *row)
{
    uint64_t offsets = pack_offsets(&row->rule), head = pack_head(epoch, row->start, &row->rule);
    STORE(slot->head, head ^ scatter_row(offsets, row->start, row->end));
    STORE(slot->offsets, offsets);
    STORE(slot->start, row->start);
    STORE(slot->end, row->end);
}

/* Is the row there? */
static bool read_row(const struct row_slot *slot, uint32_t epoch, uint64_t pc, struct cfi_row *row)
{
    uint64_t offsets = LOAD(slot->offsets), head = LOAD(slot->head);
    row->start = LOAD(slot->start);
    row->end = LOAD(slot->end);
    row->rule = rules_unpack(head, offsets);
    head ^= scatter_row(offsets, row->start, row->end) ^ rules_key(epoch, row->start);
    return pc >= row->start && pc < row->end && !(head << (64 - RULES_KEY_BITS));
}

/* A row's place is that of 64 bytes of code.  The rule is kept by its address, too, if it `is_return`, or has no row:
 * then it often is a word of the stack. */
__attribute__((noinline)) struct cfi_rule rules_find_row(uint32_t epoch, uint64_t pc,
                                                         bool is_return)
{
    struct row_slot *slot = &rows[(pc >> 6 ^ pc >> 16) % ROWS];
    struct cfi_row row;
    if (!read_row(slot, epoch, pc, &row)) {
        cfi_find_row(pc, &row);
        if (row.rule.cfa_kind != CFA_NONE)
            keep_row(slot, epoch, &row);
        else
            is_return = true;
    }
    if (is_return)
        rules_keep(epoch, pc, row.rule);
    return row.rule;
}

uint64_t rules_function(uint32_t epoch, uint64_t pc)
{
    struct function_slot *slot = &functions[(pc ^ pc >> 12) % FUNCTIONS];
    uint64_t start = LOAD(slot->start), head = LOAD(slot->head), end;
    if (!(head ^ rules_scatter(start) ^ rules_key(epoch, pc)))
        return start;
    if (!cfi_function(pc, &start, &end))
        start = pc;
    if (!(pc >> RULES_ADDRESS_BITS)) {
        STORE(slot->head, rules_key(epoch, pc) ^ rules_scatter(start));
        STORE(slot->start, start);
    }
    return start;
}

void rules_clear(void)
{
    for (uint32_t i = 0; i < RULES; i++)
        STORE(rules_slots[i].head, 0);
    for (uint32_t i = 0; i < ROWS; i++)
        STORE(rows[i].head, 0);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        STORE(functions[i].head, 0);
}
