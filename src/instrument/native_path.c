#include "native_path.h"

#include <string.h>

#include "map.h"
#include "memo.h"
#include "stack_bounds.h"

#define DISTANCE_MAX (64ull << 20) /* between two eval loops: more is another stack */
#define TRACE_MAX MEMO_WORDS

/* A walk that notes what it depends on. */
struct trace {
    uint64_t origin; /* E0 - 8 */
    struct memo_word plain[MEMO_WORDS], relative[MEMO_RELATIVE];
    uint32_t n_plain, n_relative;
    uint64_t pcs[TRACE_MAX];
    uint32_t n_pcs;
};

static uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)address;
}

static struct memo_word relative_to(uint64_t origin, uint64_t address, uint64_t value)
{
    return (struct memo_word){(uint32_t)((address - origin) / 8), value};
}

static bool note_return_address(struct trace *tr, uint64_t address)
{
    if (tr->n_plain == MEMO_WORDS || address < tr->origin)
        return false;
    tr->plain[tr->n_plain++] = relative_to(tr->origin, address, word_at(address));
    return true;
}

static bool note_frame_pointer(struct trace *tr, uint64_t address)
{
    if (tr->n_relative == MEMO_RELATIVE || address < tr->origin)
        return false;
    tr->relative[tr->n_relative++] =
        relative_to(tr->origin, address, word_at(address) - tr->origin);
    return true;
}

/* Steps from E0 to `target` by plain rules only.  False: something else is needed. */
static bool trace_walk(struct exact_thread *t, const struct anchor_rule *rule, uint64_t e0,
                       uint64_t target, struct trace *tr)
{
    uint64_t sp = e0, bp = 0, bp_slot = 0;
    if (rule->saved.bp_kind == SAVED_AT_CFA) {
        bp_slot = e0 + (uint64_t)(int64_t)rule->saved.bp_offset;
        bp = word_at(bp_slot);
    }
    tr->origin = bp_slot && bp_slot < e0 - 8 ? bp_slot : e0 - 8;
    tr->n_plain = tr->n_relative = tr->n_pcs = 0;
    if (!note_return_address(tr, e0 - 8))
        return false;
    uint64_t pc = word_at(e0 - 8) - 1;
    while (tr->n_pcs < TRACE_MAX) {
        const struct cfi_rule *r = unwind_rule(&t->unwind, pc);
        uint64_t cfa = sp;
        if (r->cfa_kind == CFA_RBP) {
            if (!bp_slot || !note_frame_pointer(tr, bp_slot))
                return false;
            cfa = bp;
        } else if (r->cfa_kind != CFA_RSP) {
            return false;
        }
        cfa += (uint64_t)(int64_t)r->cfa_offset;
        if (cfa <= sp || cfa > target || cfa & 7)
            return false;
        if (cfa == target)
            return true;
        tr->pcs[tr->n_pcs++] = pc;
        if (r->bp_kind == SAVED_AT_RBP || !note_return_address(tr, cfa - 8))
            return false;
        uint64_t slot = cfa + (uint64_t)(int64_t)r->bp_offset;
        if (r->bp_kind == SAVED_AT_CFA && slot >= sp) {
            bp_slot = slot;
            bp = word_at(slot);
        }
        pc = word_at(cfa - 8) - 1;
        sp = cfa;
    }
    return false;
}

static uint64_t function_start(uint64_t pc)
{
    uint64_t start, end;
    return cfi_function(pc, &start, &end) ? start : pc;
}

/* Is `pc` in the C function whose call `node` stands for?  What lies between that and its Python caller
 * is how it was called. */
static bool is_called(const struct exact_node *node, uint64_t pc)
{
    return frame_tag(node->word) == PYH_TAG_C_CALL &&
           frame_c_call(frame_native(function_start(pc))) == node->word;
}

static struct exact_node *native_child(struct exact *x, struct exact_thread *t,
                                       struct exact_node *parent, uint64_t pc)
{
    /* An eval loop between two Python frames: its own frame is not there yet, or a shim's. */
    if (pyframe_is_eval(x->layout, pc))
        return parent;
    return exact_child(x, t, parent, frame_native(function_start(pc)));
}

/* The general way: whatever the sampler's walk would find. */
static struct exact_node *full_walk(struct exact *x, struct exact_thread *t,
                                    struct exact_node *node, uint64_t e0, uint64_t outer_entry)
{
    struct unwind_regs regs = {0};
    struct unwind *u = &t->unwind;
    unwind_refresh(u);
    uint64_t anchors[1] = {outer_entry};
    u->anchors = anchors;
    u->n_anchors = outer_entry != 0;
    u->anchor_rule = &x->layout->anchor;
    u->stop_cfa = outer_entry ? outer_entry + (uint64_t)x->layout->anchor.cfa : 0;
    enum unwind_end end;
    size_t n = 0;
    if (unwind_from_anchor(u, e0, &regs))
        n = unwind_walk(u, &regs, t->native, EXACT_NATIVE_MAX, &end);
    else
        end = UNWIND_TRUNCATED;
    u->anchors = NULL;
    u->n_anchors = 0;
    for (size_t i = n; i--;)
        if (!t->native[i].flags && is_called(node, t->native[i].pc)) {
            n = i;
            end = UNWIND_COMPLETE;
            break;
        }
    if (end != UNWIND_COMPLETE)
        node = exact_child(x, t, node, frame_pseudo(outer_entry ? PSEUDO_GAP : PSEUDO_TRUNCATED));
    while (n--) {
        const struct native_frame *f = &t->native[n];
        if (f->flags)
            node = exact_child(
                x, t, node,
                frame_pseudo(f->flags == NATIVE_GAP_SCANNED ? PSEUDO_BRIDGED : PSEUDO_GAP));
        else if (!u->stop_cfa || f->cfa < u->stop_cfa)
            node = native_child(x, t, node, f->pc);
    }
    return node;
}

/* Mostly all are the same: no branch but the loops'. */
static bool same_words(const struct memo_entry *m, uint64_t origin)
{
    const uint64_t *stack = (const uint64_t *)origin;
    uint64_t differences = 0;
    for (uint32_t i = 0; i < m->n_plain; i++)
        differences |= stack[m->plain[i].offset] ^ m->plain[i].value;
    for (uint32_t i = 0; i < m->n_relative; i++)
        differences |= (stack[m->relative[i].offset] - origin) ^ m->relative[i].value;
    return !differences;
}

struct exact_node *native_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t entry, uint64_t outer_entry)
{
    if (!x->layout->anchor.cfa)
        return parent; /* pyframe.h, by_handlers */
    uint64_t c = (uint64_t)x->layout->anchor.cfa, e0 = entry + c, e1 = outer_entry + c;
    if (entry < t->unwind.stack_low || e0 >= t->unwind.stack_high)
        stack_bounds_update(&t->unwind, entry, x->main_stack_high);
    if (!outer_entry || e1 <= e0 || e1 - e0 > DISTANCE_MAX || e1 > t->unwind.stack_high ||
        entry < t->unwind.stack_low)
        return full_walk(x, t, parent, e0, outer_entry > entry ? outer_entry : 0);
    uint64_t distance = e1 - e0, ra = word_at(e0 - 8);
    uint64_t hash = map_hash((uint64_t)parent ^ distance << 48 ^ ra * 0x9e3779b97f4a7c15ull);
    struct memo_entry *set = t->memo->entry[hash % MEMO_SETS];
    for (int i = 0; i < 2; i++)
        if (set[i].parent == parent && set[i].distance == distance &&
            same_words(&set[i], e0 - set[i].reach))
            return set[i].node;
    struct trace tr;
    unwind_refresh(&t->unwind);
    if (!trace_walk(t, &x->layout->anchor, e0, e1, &tr))
        return full_walk(x, t, parent, e0, outer_entry);
    struct exact_node *node = parent;
    uint32_t n = tr.n_pcs;
    for (uint32_t i = n; i--;)
        if (is_called(parent, tr.pcs[i])) {
            n = i;
            break;
        }
    while (n--)
        node = native_child(x, t, node, tr.pcs[n]);
    set[1] = set[0];
    set[0] = (struct memo_entry){.parent = parent,
                                 .distance = distance,
                                 .node = node,
                                 .reach = (uint32_t)(e0 - tr.origin),
                                 .n_plain = tr.n_plain,
                                 .n_relative = tr.n_relative};
    memcpy(set[0].plain, tr.plain, tr.n_plain * sizeof *tr.plain);
    memcpy(set[0].relative, tr.relative, tr.n_relative * sizeof *tr.relative);
    return node;
}
