#include "native_path.h"

#include "map.h"
#include "memo.h"
#include "stack_bounds.h"

#define DISTANCE_MAX (64ull << 20) /* between two eval loops: more is another stack */
#define TRACE_MAX MEMO_WORDS

/* A walk that notes what it depends on. */
struct trace {
    uint64_t origin; /* E0 - 8 */
    struct memo_word words[MEMO_WORDS];
    uint32_t n_words;
    uint64_t pcs[TRACE_MAX];
    uint32_t n_pcs;
};

static uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)address;
}

static bool note(struct trace *tr, uint64_t address, bool relative)
{
    if (tr->n_words == MEMO_WORDS || address < tr->origin)
        return false;
    uint64_t value = word_at(address);
    tr->words[tr->n_words++] = (struct memo_word){(uint32_t)((address - tr->origin) / 8), relative,
                                                  relative ? value - tr->origin : value};
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
    tr->n_words = tr->n_pcs = 0;
    if (!note(tr, e0 - 8, false))
        return false;
    uint64_t pc = word_at(e0 - 8) - 1;
    while (tr->n_pcs < TRACE_MAX) {
        const struct cfi_rule *r = unwind_rule(&t->unwind, pc);
        uint64_t cfa = sp;
        if (r->cfa_kind == CFA_RBP) {
            if (!bp_slot || !note(tr, bp_slot, true))
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
        if (r->bp_kind == SAVED_AT_RBP || !note(tr, cfa - 8, false))
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
    if (pc >= x->layout->eval_start && pc < x->layout->eval_end)
        return parent;
    return exact_child(x, t, parent, frame_native(function_start(pc)));
}

/* The general way: whatever the sampler's walk would find. */
static struct exact_node *full_walk(struct exact *x, struct exact_thread *t,
                                    struct exact_node *node, uint64_t e0, uint64_t outer_entry)
{
    struct unwind_regs regs = {0};
    struct unwind *u = &t->unwind;
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

static bool same_words(const struct memo_entry *m, uint64_t origin)
{
    for (uint32_t i = 0; i < m->n_words; i++) {
        const struct memo_word *w = &m->words[i];
        uint64_t value = word_at(origin + 8 * (uint64_t)w->offset);
        if (value - (w->relative ? origin : 0) != w->value)
            return false;
    }
    return true;
}

struct exact_node *native_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t entry, uint64_t outer_entry)
{
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
                                 .n_words = tr.n_words,
                                 .reach = (uint32_t)(e0 - tr.origin)};
    __builtin_memcpy(set[0].words, tr.words, tr.n_words * sizeof *tr.words);
    return node;
}
