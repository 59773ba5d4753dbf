/* native_path.c - the native frames between an eval loop and the one that called it, as nodes.
 *
 * Context: the exact half's callbacks, on the thread whose stack it is.
 */
#include "shadow.h"

#include "compiler.h"
#include "launcher.h"
#include "map.h"
#include "path_memo.h"
#include "stack_bounds.h"

#define DISTANCE_MAX (64ull << 20) /* between two eval loops: more is another stack */
#define NO_FUNCTION 1              /* struct path_step's start: that of none */
#define STARTS_MAX 40 /* so many frames of a path are calls; those further in are functions */

/* The eval loop that was called. */
struct callee {
    uint64_t cfa; /* E0 */
    struct cfi_rule saved;
    struct unwind_regs caller; /* its caller's registers; pc 0: not known yet */
};

/* AddressSanitizer would object to where another path had its words. */
NO_ASAN static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)address;
}

/* Where the eval loop that was called saves its caller's rbp; 0: nowhere. */
static uint64_t callee_bp_at(const struct callee *callee)
{
    bool saves = callee->saved.bp_kind == SAVED_AT_CFA;
    return saves ? callee->cfa + (uint64_t)(int64_t)callee->saved.bp_offset : 0;
}

/* How many steps of the trail, outermost first, are what they were: a walk that meets one of them would go on as it did. */
NO_ASAN static uint32_t steps_that_hold(const struct path_trail *tr, const struct exact_thread *t,
                                        const struct exact_node *parent, uint64_t e0)
{
    if (tr->parent != parent || tr->thread != t->serial || tr->stop != t->unwind.stop_cfa ||
        tr->epoch != t->unwind.epoch)
        return 0;
    uint32_t i;
    for (i = 1; i < tr->n; i++) {
        const struct path_step *s = &tr->step[i];
        if (s->cfa <= e0 || word_at(s->cfa - 8) - 1 != s[-1].pc)
            break;
        if (s->restores_bp && word_at(s->bp_at) != s->bp)
            return i + 1;
    }
    return i;
}

/* Steps from E0 to the outer eval loop (unwind_stop_at), or to one of the first `known` steps of a trail, by plain rules only.
 * Returns how many steps it has put into `out`, the outer eval loop's among them, innermost first, and where it met the trail,
 * 0: nowhere.  0: something else is needed. */
static uint32_t walk(const struct unwind *u, const struct callee *callee,
                     const struct path_trail *tr, uint32_t known, struct path_step *out,
                     uint32_t *met)
{
    uint64_t sp = callee->cfa, bp_at = callee_bp_at(callee), bp = bp_at ? word_at(bp_at) : 0;
    uint64_t pc = word_at(sp - 8) - 1;
    uint32_t n = 0;
    *met = 0;
    while (n < EXACT_NATIVE_MAX) {
        struct cfi_rule r = unwind_rule(u, pc);
        struct path_step *s = &out[n++];
        s->uses_bp = r.cfa_kind == CFA_RBP;
        if (s->uses_bp ? !bp_at : r.cfa_kind != CFA_RSP)
            return 0;
        uint64_t cfa = (s->uses_bp ? bp : sp) + (uint64_t)(int64_t)r.cfa_offset;
        if (cfa <= sp || cfa & 7)
            return 0;
        s->pc = pc;
        s->cfa = cfa;
        if (cfa >= u->stop_cfa) {
            s->bp_at = s->bp = 0;
            return unwind_is_stop(u, cfa) ? n : 0;
        }
        uint64_t slot = cfa + (uint64_t)(int64_t)r.bp_offset;
        s->bp_at = r.bp_kind == SAVED_AT_CFA && slot >= sp ? slot : 0;
        if (r.bp_kind == SAVED_AT_RBP)
            return 0;
        if (s->bp_at) {
            bp_at = slot;
            bp = word_at(slot);
        }
        s->bp = bp;
        while (known && tr->step[known - 1].cfa < cfa)
            known--;
        const struct path_step *there = &tr->step[known - 1];
        if (known > 1 && there->cfa == cfa && there->pc == pc &&
            (!there[-1].depends || there->bp == bp)) {
            *met = known - 1;
            return n;
        }
        pc = word_at(cfa - 8) - 1;
        sp = cfa;
    }
    return 0;
}

static uint64_t function_start(const struct exact_thread *t, uint64_t pc)
{
    return unwind_function(&t->unwind, pc);
}

/* Is `pc` in the C function whose call `node` stands for?  What lies between that and its Python caller
 * is how it was called. */
static bool is_called(const struct exact_thread *t, const struct exact_node *node, uint64_t pc)
{
    return frame_tag(node->word) == PYH_TAG_C_CALL &&
           frame_c_call(frame_native(function_start(t, pc))) == node->word;
}

/* The node of a path's frame.  It is that of the call, by which views find what was inlined there; but where C code recurses, of
 * the function: else each way through the recursion would have nodes.  `path`: its first frame, outermost first; `i`: which. */
static __attribute__((noinline)) struct exact_node *new_child(struct exact *x,
                                                              struct exact_thread *t,
                                                              struct exact_node *parent,
                                                              struct path_step *path, uint32_t i)
{
    uint64_t pc = path[i].pc;
    bool recurs = i >= STARTS_MAX;
    for (uint32_t k = 0; k <= i && k < STARTS_MAX; k++)
        if (!path[k].start)
            path[k].start = pyframe_is_eval(x->layout, path[k].pc) ? NO_FUNCTION
                                                                   : function_start(t, path[k].pc);
    for (uint32_t k = 0; k < i && !recurs; k++)
        recurs = path[k].start == path[i].start;
    uint64_t start = i < STARTS_MAX ? path[i].start : function_start(t, pc);
    struct exact_node *node = exact_child(x, t, parent, frame_native(recurs ? start : pc));
    if (!exact_is_full(node) && node != parent)
        exact_remember_child(t, parent, frame_native(pc), node);
    return node;
}

static struct exact_node *native_child(struct exact *x, struct exact_thread *t,
                                       struct exact_node *parent, struct path_step *path,
                                       uint32_t i)
{
    /* An eval loop between two Python frames: its own frame is not there yet, or a shim's. */
    if (pyframe_is_eval(x->layout, path[i].pc))
        return parent;
    struct exact_node *known = exact_known_child(t, parent, frame_native(path[i].pc));
    return known ? known : new_child(x, t, parent, path, i);
}

/* The outermost of `n` frames below an eval loop may be part of it. */
static size_t without_handler(const struct exact *x, size_t n)
{
    return n - (n && x->layout->by_handlers);
}

/* How many of the `n` frames that were walked lie below the outer eval loop. */
static size_t below_outer(const struct exact *x, const struct exact_thread *t, size_t n)
{
    const struct native_frame *f = x->paths->native;
    for (size_t i = 0; i < n && t->unwind.stop_cfa; i++)
        if (!f[i].flags && f[i].cfa >= t->unwind.stop_cfa)
            return i && !f[i - 1].flags && t->unwind.stop_slack ? without_handler(x, i) : i;
    return n;
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

/* The general way: whatever the sampler's walk would find. */
static struct exact_node *full_walk(struct exact *x, struct exact_thread *t,
                                    struct exact_node *node, struct callee *callee,
                                    uint64_t outer_entry)
{
    struct unwind *u = &t->unwind;
    const struct native_frame *f = x->paths->native;
    struct path_step *path = x->paths->none.step;
    u->anchors = &outer_entry;
    u->n_anchors = outer_entry != 0;
    u->anchor_rule = &x->layout->anchor;
    enum unwind_end end = UNWIND_TRUNCATED;
    size_t n = 0;
    if (callee->caller.pc || unwind_from_anchor(u, callee->cfa, &callee->caller))
        n = unwind_walk(u, &callee->caller, x->paths->native, EXACT_NATIVE_MAX, &end);
    u->anchors = NULL;
    u->n_anchors = 0;
    n = below_outer(x, t, n);
    for (size_t i = n; i--;)
        if (!f[i].flags && is_called(t, node, f[i].pc)) {
            n = i;
            end = UNWIND_COMPLETE;
            break;
        }
    if (end != UNWIND_COMPLETE)
        node = exact_child(x, t, node, frame_pseudo(outer_entry ? PSEUDO_GAP : PSEUDO_TRUNCATED));
    for (uint32_t i = 0; n--; i++) {
        bool is_gap = f[n].flags;
        path[i] = (struct path_step){.pc = f[n].pc, .start = is_gap ? NO_FUNCTION : 0};
        enum pseudo which = f[n].flags == NATIVE_GAP_SCANNED ? PSEUDO_BRIDGED : PSEUDO_GAP;
        node = is_gap ? exact_child(x, t, node, frame_pseudo(which))
                      : native_child(x, t, node, path, i);
    }
    return node;
}

/* Mostly all are the same: no branch but the loops'. */
NO_ASAN static inline bool same_words(const struct memo_entry *m, uint64_t origin)
{
    const uint64_t *stack = (const uint64_t *)origin;
    uint64_t differences = 0;
    for (uint32_t i = 0; i < m->n_plain; i++)
        differences |= stack[m->plain[i].offset] ^ m->plain[i].value;
    for (uint32_t i = 0; i < m->n_relative; i++)
        differences |= (stack[m->relative[i].offset] - origin) ^ m->relative[i].value;
    return !differences;
}

static bool grow_memo(struct memo *m)
{
    uint32_t n = 4 * m->n_sets;
    void *larger = n <= MEMO_SETS_MAX ? map_memory(n * sizeof *m->set) : NULL;
    if (!larger)
        return false;
    if (m->n_sets > MEMO_SETS) /* the first ones came with the thread */
        map_memory_free(m->set, m->n_sets * sizeof *m->set);
    *m = (struct memo){.set = larger, .n_sets = n};
    return true;
}

/* Where to put a new path, NULL: nowhere.  The larger the share of those that were replaced without having been met again, the
 * fewer are kept.  What was there before more sets were needed is walked again. */
static struct memo_entry *place_for(struct memo *m, uint64_t hash)
{
    struct memo_entry *way = m->set[hash % m->n_sets].way;
    if (!way[0].parent || !way[1].parent)
        return &way[way[0].parent != NULL];
    if (m->n_skipped < m->skips) {
        m->n_skipped++;
        return NULL;
    }
    m->n_skipped = 0;
    struct memo_entry *oldest = &way[way[0].was_met && !way[1].was_met];
    if (!oldest->was_met) {
        m->skips = m->skips < MEMO_SKIPS_MAX ? 2 * m->skips + 1 : m->skips;
        return oldest;
    }
    m->skips /= 2;
    if (++m->n_replaced >= 2 * m->n_sets && grow_memo(m))
        return m->set[hash % m->n_sets].way;
    way[0].was_met = way[1].was_met = false;
    return oldest;
}

static struct memo_word relative_to(uint64_t origin, uint64_t address)
{
    return (struct memo_word){(uint32_t)((address - origin) / 8), word_at(address)};
}

/* Keeps a whole path of `n` steps, the first one the outer eval loop's, if it is short. */
static void keep_path(struct memo *m, uint64_t hash, const struct exact_node *parent,
                      uint64_t distance, const struct callee *callee, const struct path_step *step,
                      uint32_t n, struct exact_node *node)
{
    uint64_t bp_at = callee_bp_at(callee), origin = callee->cfa - 8;
    if (bp_at && bp_at < origin)
        origin = bp_at;
    uint32_t n_relative = 0;
    for (uint32_t i = 0; i < n; i++)
        n_relative += step[i].uses_bp;
    struct memo_entry *e =
        n <= MEMO_WORDS && n_relative <= MEMO_RELATIVE ? place_for(m, hash) : NULL;
    if (!e)
        return;
    e->parent = parent;
    e->distance = distance;
    e->node = node;
    e->reach = (uint32_t)(callee->cfa - origin);
    e->was_met = false;
    e->n_plain = n;
    e->n_relative = n_relative;
    struct memo_word *plain = e->plain, *relative = e->relative;
    *plain++ = relative_to(origin, callee->cfa - 8);
    for (uint32_t i = n; i--;) {
        if (i)
            *plain++ = relative_to(origin, step[i].cfa - 8);
        if (step[i].uses_bp) {
            *relative = relative_to(origin, bp_at);
            relative++->value -= origin;
        }
        if (step[i].bp_at)
            bp_at = step[i].bp_at;
    }
}

/* The path by plain rules, which mostly do; NULL: they do not. */
static __attribute__((noinline)) struct exact_node *
walked_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
            const struct callee *callee, uint64_t distance, uint64_t hash)
{
    const struct path_step *walked = x->paths->walk;
    struct path_trail *tr = &x->paths->trail[map_hash((uint64_t)parent) % TRAILS];
    uint32_t met, known = steps_that_hold(tr, t, parent, callee->cfa);
    uint32_t n_new = walk(&t->unwind, callee, tr, known, x->paths->walk, &met);
    uint32_t n_old = met ? met + 1 : 0, n = n_old + n_new - (met != 0);
    if (!n_new || n > EXACT_NATIVE_MAX)
        return NULL;
    if (!met && n < TRAIL_LEAST)
        tr = &x->paths->none;
    struct path_step *step = tr->step;
    uint32_t i = n_old;
    for (uint32_t k = n - n_old; k--; i++) {
        step[i] = walked[k];
        step[i].start = 0;
        step[i].depends = step[i].uses_bp || (i && !step[i].bp_at && step[i - 1].depends);
        step[i].restores_bp = i && step[i].bp_at && step[i - 1].depends;
    }
    uint32_t least = (uint32_t)(n - without_handler(x, n - 1)), from = n_old;
    if (n_old < tr->first || !met) {
        tr->first = least;
        from = 1;
    }
    for (i = from; i < n && tr->first == least && frame_tag(parent->word) == PYH_TAG_C_CALL; i++)
        if (is_called(t, parent, step[i].pc))
            tr->first = i + 1;
    uint32_t first = tr->first;
    struct exact_node *node = from > first ? step[from - 1].node : parent;
    for (i = from > first ? from : first; i < n; i++)
        node = step[i].node = native_child(x, t, node, &step[first], i - first);
    tr->parent = parent;
    tr->thread = t->serial;
    tr->stop = t->unwind.stop_cfa;
    tr->epoch = t->unwind.epoch;
    tr->n = n;
    keep_path(&t->memo, hash, parent, distance, callee, step, n, node);
    return node;
}

/* What a memo knows a path by. */
struct memo_key {
    uint64_t distance, hash;
};

static ALWAYS_INLINE struct memo_key key_of(const struct exact_node *parent, uint64_t e0,
                                            uint64_t stop, int16_t bp_offset)
{
    uint64_t distance = (stop - e0) | (uint64_t)(uint16_t)bp_offset << 48, ra = word_at(e0 - 8);
    return (struct memo_key){
        distance, map_hash((uint64_t)parent ^ distance << 48 ^ ra * 0x9e3779b97f4a7c15ull)};
}

static ALWAYS_INLINE struct exact_node *memo_find(const struct memo *m, struct memo_key key,
                                                  const struct exact_node *parent, uint64_t e0)
{
    struct memo_entry *way = m->set[key.hash % m->n_sets].way;
    for (int i = 0; i < 2; i++)
        if (way[i].parent == parent && way[i].distance == key.distance &&
            same_words(&way[i], e0 - way[i].reach)) {
            way[i].was_met = true;
            return way[i].node;
        }
    return NULL;
}

struct exact_node *native_path_known(const struct exact *x, const struct exact_thread *t,
                                     const struct exact_node *parent, uint64_t entry,
                                     uint64_t outer_entry)
{
    const struct anchor_rule *rule = &x->layout->anchor;
    const struct unwind *u = &t->unwind;
    uint64_t cfa = (uint64_t)rule->cfa, e0 = entry + cfa, stop = outer_entry + cfa;
    if (!cfa || entry < u->stack_low || outer_entry <= entry || stop > u->stack_high ||
        stop - e0 > DISTANCE_MAX)
        return NULL;
    return memo_find(&t->memo, key_of(parent, e0, stop, rule->saved.bp_offset), parent, e0);
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
    unwind_refresh(u);
    struct exact_node *node = NULL;
    if (outer_entry && u->stop_cfa > e0 && u->stop_cfa - e0 <= DISTANCE_MAX &&
        u->stop_cfa <= u->stack_high && entry >= u->stack_low) {
        struct memo_key key = key_of(parent, e0, u->stop_cfa, callee.saved.bp_offset);
        node = memo_find(&t->memo, key, parent, e0);
        if (!node)
            node = walked_path(x, t, parent, &callee, key.distance, key.hash);
    }
    return node ? node : full_walk(x, t, parent, &callee, outer_entry);
}
