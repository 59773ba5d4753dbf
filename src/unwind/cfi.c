#include "cfi.h"

#include <stddef.h>
#include <string.h>

#include "arch_x86_64.h"
#include "cfi_fde.h"
#include "memread.h"

/* Call frame instructions, DWARF 5 table 7.29, and GNU's. */
enum {
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2e,
};

enum slot_kind { SLOT_SAME, SLOT_CFA, SLOT_RBP, SLOT_UNDEFINED, SLOT_OTHER };

struct slot {
    enum slot_kind kind;
    int64_t offset;
};

struct state {
    enum cfa_kind cfa;
    int64_t offset;
    struct slot bp, bx, ra;
};

static enum cfa_kind cfa_by_register(uint64_t reg)
{
    switch (reg) {
    case DW_RSP:
        return CFA_RSP;
    case DW_RBP:
        return CFA_RBP;
    case DW_RBX:
        return CFA_RBX;
    case DW_R10:
        return CFA_R10;
    }
    return CFA_NONE;
}

/* The expressions that compilers and linkers emit for a CFA: *(rbp + n), and the PLT's. */
static void cfa_expression(struct cursor *c, struct state *s)
{
    uint64_t n = cursor_uleb(c);
    if (c->bad || n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        return;
    }
    struct cursor e = {c->p, c->p + n, false};
    c->p += n;
    s->cfa = CFA_NONE;
    uint64_t op = cursor_u(&e, 1);
    if (op == 0x76) { /* DW_OP_breg6 (rbp) n; DW_OP_deref */
        int64_t offset = cursor_sleb(&e);
        if (cursor_u(&e, 1) == 0x06 && !e.bad && e.p == e.end) {
            s->cfa = CFA_RBP_DEREF;
            s->offset = offset;
        }
        return;
    }
    /* breg7 (rsp) 8; breg16 (rip) 0; lit15; and; litN; ge; lit3; shl; plus */
    if (op != 0x77 || cursor_sleb(&e) != 8 || cursor_u(&e, 1) != 0x80 || cursor_sleb(&e) != 0 ||
        cursor_u(&e, 1) != 0x3f || cursor_u(&e, 1) != 0x1a)
        return;
    uint64_t literal = cursor_u(&e, 1);
    if (literal >= 0x30 && literal <= 0x3f && cursor_u(&e, 1) == 0x2a && cursor_u(&e, 1) == 0x33 &&
        cursor_u(&e, 1) == 0x24 && cursor_u(&e, 1) == 0x22 && !e.bad) {
        s->cfa = CFA_PLT;
        s->offset = (int64_t)literal - 0x30;
    }
}

static struct slot *slot_of(struct state *s, uint64_t reg)
{
    return reg == DW_RBP ? &s->bp : reg == DW_RBX ? &s->bx : reg == DW_RA ? &s->ra : NULL;
}

static void set_slot(struct state *s, uint64_t reg, enum slot_kind kind, int64_t offset)
{
    struct slot *slot = slot_of(s, reg);
    if (slot)
        *slot = (struct slot){kind, offset};
}

static void register_expression(struct cursor *c, struct state *s, bool is_slot)
{
    uint64_t reg = cursor_uleb(c), n = cursor_uleb(c);
    if (c->bad || n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        return;
    }
    struct cursor e = {c->p, c->p + n, false};
    c->p += n;
    if (is_slot && cursor_u(&e, 1) == 0x76) { /* DW_OP_breg6 (rbp) n */
        int64_t offset = cursor_sleb(&e);
        if (!e.bad && e.p == e.end) {
            set_slot(s, reg, SLOT_RBP, offset);
            return;
        }
    }
    set_slot(s, reg, SLOT_OTHER, 0);
}

static bool is_advance(uint8_t op)
{
    return op >> 6 == 1 || (op >= CFA_SET_LOC && op <= CFA_ADVANCE_LOC4);
}

/* The location that the instruction `op`, an advance, leads to. */
static uint64_t advance(struct cursor *c, uint8_t op, const struct fde *f, uint64_t location)
{
    if (op == CFA_SET_LOC)
        return cursor_encoded(c, f->encoding, 0);
    uint64_t by = op >> 6 == 1             ? op & 0x3f
                  : op == CFA_ADVANCE_LOC1 ? cursor_u(c, 1)
                  : op == CFA_ADVANCE_LOC2 ? cursor_u(c, 2)
                                           : cursor_u(c, 4);
    return location + by * f->code_align;
}

static void restore_slot(struct state *s, const struct state *initial, uint64_t reg)
{
    struct slot *slot = slot_of(s, reg);
    if (slot)
        *slot = *slot_of((struct state *)initial, reg);
}

static void define_cfa(struct state *s, uint64_t reg, int64_t offset)
{
    s->cfa = cfa_by_register(reg);
    s->offset = offset;
}

#define REMEMBERED 8

/* Executes instructions while their location is <= pc.  `row` gets the addresses for which it would execute
 * the same ones. */
static void execute(struct cursor c, const struct fde *f, uint64_t pc, struct state *s,
                    const struct state *initial, struct cfi_row *row)
{
    struct state stack[REMEMBERED];
    unsigned depth = 0;
    uint64_t location = f->start;
    row->start = f->start;
    row->end = f->end < f->next ? f->end : f->next;
    while (c.p < c.end && !c.bad) {
        uint8_t op = (uint8_t)cursor_u(&c, 1);
        uint64_t reg;
        if (is_advance(op)) {
            location = advance(&c, op, f, location);
            if (location > pc && !c.bad) {
                if (location < row->end)
                    row->end = location;
                return;
            }
            if (location > row->start)
                row->start = location;
            continue;
        }
        if (op >> 6 == 2) {
            set_slot(s, op & 0x3f, SLOT_CFA, (int64_t)cursor_uleb(&c) * f->data_align);
            continue;
        }
        if (op >> 6 == 3) {
            restore_slot(s, initial, op & 0x3f);
            continue;
        }
        switch (op) {
        case CFA_NOP:
            break;
        case CFA_OFFSET_EXTENDED:
            reg = cursor_uleb(&c);
            set_slot(s, reg, SLOT_CFA, (int64_t)cursor_uleb(&c) * f->data_align);
            break;
        case CFA_OFFSET_EXTENDED_SF:
            reg = cursor_uleb(&c);
            set_slot(s, reg, SLOT_CFA, cursor_sleb(&c) * f->data_align);
            break;
        case CFA_RESTORE_EXTENDED:
            restore_slot(s, initial, cursor_uleb(&c));
            break;
        case CFA_UNDEFINED:
            set_slot(s, cursor_uleb(&c), SLOT_UNDEFINED, 0);
            break;
        case CFA_SAME_VALUE:
            set_slot(s, cursor_uleb(&c), SLOT_SAME, 0);
            break;
        case CFA_REGISTER:
        case CFA_VAL_OFFSET:
        case CFA_VAL_OFFSET_SF:
            reg = cursor_uleb(&c);
            cursor_uleb(&c);
            set_slot(s, reg, SLOT_OTHER, 0);
            break;
        case CFA_REMEMBER_STATE:
            if (depth == REMEMBERED)
                c.bad = true;
            else
                stack[depth++] = *s;
            break;
        case CFA_RESTORE_STATE:
            if (!depth)
                c.bad = true;
            else
                *s = stack[--depth];
            break;
        case CFA_DEF_CFA:
            reg = cursor_uleb(&c);
            define_cfa(s, reg, (int64_t)cursor_uleb(&c));
            break;
        case CFA_DEF_CFA_SF:
            reg = cursor_uleb(&c);
            define_cfa(s, reg, cursor_sleb(&c) * f->data_align);
            break;
        case CFA_DEF_CFA_REGISTER:
            define_cfa(s, cursor_uleb(&c), s->offset);
            break;
        case CFA_DEF_CFA_OFFSET:
            s->offset = (int64_t)cursor_uleb(&c);
            break;
        case CFA_DEF_CFA_OFFSET_SF:
            s->offset = cursor_sleb(&c) * f->data_align;
            break;
        case CFA_DEF_CFA_EXPRESSION:
            cfa_expression(&c, s);
            break;
        case CFA_EXPRESSION:
            register_expression(&c, s, true);
            break;
        case CFA_VAL_EXPRESSION: /* the value itself, not where it is saved */
            register_expression(&c, s, false);
            break;
        case CFA_GNU_ARGS_SIZE:
            cursor_uleb(&c);
            break;
        default:
            c.bad = true;
        }
    }
    if (c.bad)
        s->cfa = CFA_NONE;
}

static bool saved_rule(const struct slot *slot, uint8_t *kind, int16_t *offset)
{
    *kind = slot->kind == SLOT_CFA   ? SAVED_AT_CFA
            : slot->kind == SLOT_RBP ? SAVED_AT_RBP
                                     : SAVED_SAME;
    *offset = (int16_t)slot->offset;
    return slot->offset == *offset;
}

void cfi_find_row(uint64_t pc, struct cfi_row *row)
{
    struct fde f;
    struct cfi_rule *rule = &row->rule;
    *row = (struct cfi_row){pc, pc + 1, {.cfa_kind = CFA_NONE}};
    if (!fde_find(pc, &f))
        return;
    if (f.signal_frame) {
        rule->cfa_kind = CFA_SIGNAL;
        return;
    }
    struct state s = {.cfa = CFA_NONE, .ra = {SLOT_CFA, -8}};
    execute(f.cie_instructions, &f, ~0ull, &s, &s, row);
    struct state initial = s;
    execute(f.instructions, &f, pc, &s, &initial, row);
    if (s.ra.kind == SLOT_UNDEFINED) {
        rule->cfa_kind = CFA_END;
        return;
    }
    bool standard = s.ra.kind == SLOT_CFA && s.ra.offset == -8 && f.return_register == DW_RA;
    bool fits = saved_rule(&s.bp, &rule->bp_kind, &rule->bp_offset) &&
                saved_rule(&s.bx, &rule->bx_kind, &rule->bx_offset) &&
                s.offset == (int32_t)s.offset;
    if (standard && fits) {
        rule->cfa_kind = (uint8_t)s.cfa;
        rule->cfa_offset = (int32_t)s.offset;
    }
}

void cfi_find(uint64_t pc, struct cfi_rule *rule)
{
    struct cfi_row row;
    cfi_find_row(pc, &row);
    *rule = row.rule;
}

/* CPython copies it for every Python function: Python/asm_trampoline.S, and asm_trampoline_x86_64.S of 3.14 on.
 * The bytes from its only call on leave no doubt where its frame ends. */
bool cfi_find_trampoline(uint64_t pc, struct cfi_rule *rule)
{
    static const unsigned char without_frame_pointer[] = {0xff, 0xd1,             /* call *%rcx */
                                                          0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
                                                          0xc3};
    static const unsigned char with_frame_pointer[] = {0xff, 0xd1, /* call *%rcx */
                                                       0x5d,       /* pop %rbp */
                                                       0xc3};
    unsigned char code[sizeof without_frame_pointer];
    if (!memread(code, pc - 1, sizeof code))
        return false;
    bool has_frame_pointer = !memcmp(code, with_frame_pointer, sizeof with_frame_pointer);
    if (!has_frame_pointer && memcmp(code, without_frame_pointer, sizeof code) != 0)
        return false;
    *rule = (struct cfi_rule){.cfa_kind = CFA_RSP, .cfa_offset = 16};
    if (has_frame_pointer) {
        rule->bp_kind = SAVED_AT_CFA;
        rule->bp_offset = -16;
    }
    return true;
}

bool cfi_function(uint64_t pc, uint64_t *start, uint64_t *end)
{
    struct fde f;
    if (!fde_find(pc, &f))
        return false;
    *start = f.start;
    *end = f.end;
    return true;
}
