#include "native_path.h"

#include <string.h>

#include "launcher.h"
#include "map.h"
#include "path_memo.h"
#include "stack_bounds.h"

#define DISTANCE_MAX (64ull << 20) /* between two eval loops: more is another stack */
#define TRACE_MAX MEMO_WORDS

/* The eval loop that was called. */
struct callee {
    uint64_t cfa; /* E0 */
    struct cfi_rule saved;
    struct unwind_regs caller; /* its caller's registers; pc 0: not known yet */
};

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

/* Steps from E0 to the outer eval loop (unwind_stop_at) by plain rules only.  False: something else is needed. */
static bool trace_walk(struct exact_thread *t, const struct callee *callee, struct trace *tr)
{
    uint64_t e0 = callee->cfa, sp = e0, bp = 0, bp_slot = 0;
    if (callee->saved.bp_kind == SAVED_AT_CFA) {
        bp_slot = e0 + (uint64_t)(int64_t)callee->saved.bp_offset;
        bp = word_at(bp_slot);
    }
    tr->origin = bp_slot && bp_slot < e0 - 8 ? bp_slot : e0 - 8;
    tr->n_plain = tr->n_relative = tr->n_pcs = 0;
    if (!note_return_address(tr, e0 - 8))
        return false;
    uint64_t pc = word_at(e0 - 8) - 1;
    while (tr->n_pcs < TRACE_MAX) {
        struct cfi_rule r = unwind_rule(&t->unwind, pc);
        uint64_t cfa = sp;
        if (r.cfa_kind == CFA_RBP) {
            if (!bp_slot || !note_frame_pointer(tr, bp_slot))
                return false;
            cfa = bp;
        } else if (r.cfa_kind != CFA_RSP) {
            return false;
        }
        cfa += (uint64_t)(int64_t)r.cfa_offset;
        if (cfa <= sp || cfa & 7)
            return false;
        if (cfa >= t->unwind.stop_cfa)
            return unwind_is_stop(&t->unwind, cfa);
        tr->pcs[tr->n_pcs++] = pc;
        if (r.bp_kind == SAVED_AT_RBP || !note_return_address(tr, cfa - 8))
            return false;
        uint64_t slot = cfa + (uint64_t)(int64_t)r.bp_offset;
        if (r.bp_kind == SAVED_AT_CFA && slot >= sp) {
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

/* The outermost of `n` frames below an eval loop may be part of it. */
static size_t without_handler(const struct exact *x, size_t n)
{
    return n - (n && x->layout->by_handlers);
}

/* Is `pc` in the C function whose call `node` stands for?  What lies between that and its Python caller
 * is how it was called. */
static bool is_called(const struct exact_node *node, uint64_t pc)
{
    return frame_tag(node->word) == PYH_TAG_C_CALL &&
           frame_c_call(frame_native(function_start(pc))) == node->word;
}

/* The node of the path's frame `i`, from the outermost.  It is that of the call, by which views find what was inlined there; but
 * where C code recurses, of the function: else each way through the recursion would have nodes.  `starts`: of the functions
 * further out. */
static struct exact_node *native_child(struct exact *x, struct exact_thread *t,
                                       struct exact_node *parent, uint64_t pc, uint64_t *starts,
                                       uint32_t i)
{
    /* An eval loop between two Python frames: its own frame is not there yet, or a shim's. */
    bool is_eval = pyframe_is_eval(x->layout, pc), recurs = i >= MEMO_STARTS;
    uint64_t start = is_eval ? 0 : function_start(pc);
    for (uint32_t k = 0; k < i && !recurs; k++)
        recurs = starts[k] == start;
    if (i < MEMO_STARTS)
        starts[i] = start;
    return is_eval ? parent : exact_child(x, t, parent, frame_native(recurs ? start : pc));
}

/* How many of the `n` frames that were walked lie below the outer eval loop. */
static size_t below_outer(const struct exact *x, const struct exact_thread *t, size_t n)
{
    const struct native_frame *f = x->native;
    for (size_t i = 0; i < n && t->unwind.stop_cfa; i++)
        if (!f[i].flags && f[i].cfa >= t->unwind.stop_cfa)
            return i && !f[i - 1].flags && t->unwind.stop_slack ? without_handler(x, i) : i;
    return n;
}

/* The node of the `n` frames that were walked, below `node`. */
static struct exact_node *walked_child(struct exact *x, struct exact_thread *t,
                                       struct exact_node *node, size_t n)
{
    struct memo_path *last = x->path;
    if (last->parent != node || last->thread != t->serial || last->epoch != t->unwind.epoch)
        last->n = 0;
    last->parent = node;
    last->thread = t->serial;
    last->epoch = t->unwind.epoch;
    uint32_t at = 0;
    while (n--) {
        const struct native_frame *f = &x->native[n];
        uint64_t pc = f->flags ? f->flags : f->pc;
        if (at < last->n && last->step[at].pc == pc) {
            node = last->step[at++].node;
            continue;
        }
        if (f->flags) {
            node = exact_child(
                x, t, node,
                frame_pseudo(f->flags == NATIVE_GAP_SCANNED ? PSEUDO_BRIDGED : PSEUDO_GAP));
            if (at < MEMO_STARTS)
                last->start[at] = 0;
        } else {
            node = native_child(x, t, node, f->pc, last->start, at);
        }
        last->step[at].pc = pc;
        last->step[at].node = node;
        last->n = ++at;
    }
    return node;
}

/* The general way: whatever the sampler's walk would find. */
static struct exact_node *full_walk(struct exact *x, struct exact_thread *t,
                                    struct exact_node *node, struct callee *callee,
                                    uint64_t outer_entry)
{
    struct unwind *u = &t->unwind;
    unwind_refresh(u);
    u->anchors = &outer_entry;
    u->n_anchors = outer_entry != 0;
    u->anchor_rule = &x->layout->anchor;
    enum unwind_end end = UNWIND_TRUNCATED;
    size_t n = 0;
    if (callee->caller.pc || unwind_from_anchor(u, callee->cfa, &callee->caller))
        n = unwind_walk(u, &callee->caller, x->native, EXACT_NATIVE_MAX, &end);
    u->anchors = NULL;
    u->n_anchors = 0;
    n = below_outer(x, t, n);
    for (size_t i = n; i--;)
        if (!x->native[i].flags && is_called(node, x->native[i].pc)) {
            n = i;
            end = UNWIND_COMPLETE;
            break;
        }
    if (end != UNWIND_COMPLETE)
        node = exact_child(x, t, node, frame_pseudo(outer_entry ? PSEUDO_GAP : PSEUDO_TRUNCATED));
    return walked_child(x, t, node, n);
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

/* The eval loop that has `entry`, where its CFA is at no constant distance: stepped to from here. */
static __attribute__((noinline)) bool find_callee(struct exact *x, struct exact_thread *t,
                                                  uint64_t entry, struct callee *callee)
{
    struct unwind_regs *regs = &callee->caller;
    enum cfa_kind kind;
    unwind_refresh(&t->unwind);
    arch_regs_here(regs);
    stack_bounds_update(&t->unwind, regs->sp, x->main_stack_high);
    if (entry < regs->sp || entry >= t->unwind.stack_high)
        return false; /* on another stack */
    do {
        callee->saved = unwind_rule(&t->unwind, regs->pc); /* knows CPython's trampoline, too */
        if (!unwind_step(&t->unwind, regs, &callee->cfa, &kind) || kind == CFA_END)
            return false;
    } while (callee->cfa <= entry);
    return callee->cfa - entry <= PYFRAME_EVAL_MAX;
}

/* The set to put a new path into.  What was there before more were needed is walked again. */
static struct memo_entry *place_for(struct memo *m, uint64_t hash)
{
    bool grows = m->n_replaced >= 2 * m->n_sets && m->n_sets < MEMO_SETS_MAX;
    uint32_t n = 4 * m->n_sets;
    void *larger = grows ? map_memory(n * sizeof *m->set) : NULL;
    if (larger) {
        if (m->n_sets > MEMO_SETS) /* the first ones came with the thread */
            map_memory_free(m->set, m->n_sets * sizeof *m->set);
        *m = (struct memo){larger, n, 0};
    }
    struct memo_entry *set = m->set[hash % m->n_sets].way;
    m->n_replaced += set[1].parent != NULL;
    return set;
}

struct exact_node *native_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t entry, uint64_t outer_entry)
{
    const struct anchor_rule *rule = &x->layout->anchor;
    struct unwind *u = &t->unwind;
    if (entry < u->stack_low || entry >= u->stack_high)
        stack_bounds_update(u, entry, x->main_stack_high);
    if (outer_entry <= entry)
        outer_entry = 0;
    struct callee callee = {.cfa = entry + (uint64_t)rule->cfa, .saved = rule->saved};
    if (!rule->cfa && !find_callee(x, t, entry, &callee))
        return exact_child(x, t, parent, frame_pseudo(PSEUDO_GAP));
    uint64_t e0 = callee.cfa;
    pyframe_stop_at(x->layout, u, outer_entry);
    if (!outer_entry)
        launcher_stop(u, entry);
    uint64_t distance = u->stop_cfa - e0;
    if (!outer_entry || u->stop_cfa <= e0 || distance > DISTANCE_MAX ||
        u->stop_cfa > u->stack_high || entry < u->stack_low)
        return full_walk(x, t, parent, &callee, outer_entry);
    distance |= (uint64_t)(uint16_t)callee.saved.bp_offset << 48;
    uint64_t ra = word_at(e0 - 8);
    uint64_t hash = map_hash((uint64_t)parent ^ distance << 48 ^ ra * 0x9e3779b97f4a7c15ull);
    struct memo *memo = &t->memo;
    struct memo_entry *set = memo->set[hash % memo->n_sets].way;
    for (int i = 0; i < 2; i++)
        if (set[i].parent == parent && set[i].distance == distance &&
            same_words(&set[i], e0 - set[i].reach))
            return set[i].node;
    struct trace tr;
    unwind_refresh(u);
    if (!trace_walk(t, &callee, &tr))
        return full_walk(x, t, parent, &callee, outer_entry);
    struct exact_node *node = parent;
    size_t n = without_handler(x, tr.n_pcs);
    for (size_t i = n; i--;)
        if (is_called(parent, tr.pcs[i])) {
            n = i;
            break;
        }
    uint64_t starts[MEMO_STARTS];
    for (uint32_t i = 0; n--; i++)
        node = native_child(x, t, node, tr.pcs[n], starts, i);
    set = place_for(memo, hash);
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
