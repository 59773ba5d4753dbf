#include "unwind.h"

#include <stdatomic.h>
#include <string.h>

#include "compiler.h"
#include "memread.h"
#include "rules.h"

#define GUARDED_LOADS_MAX 256  /* a foreign stack costs a system call a load */
#define SCAN_WORDS 512         /* how far a return address is sought */
#define SCAN_TRIES 16          /* candidates from which unwinding is tried */
#define SCAN_STEPS 128         /* frames a candidate may take to reach its anchor or the root */
#define SCAN_STEPS_IN_ALL 4096 /* of one walk */
#define BASE_WORDS 32          /* how far above a base */
#define BASE_ALIGNMENT 4096    /* of a stack pointer that has left one behind */
#define BASE_SAVED_WORDS 32    /* where such a frame may keep it */
#define BASES_MAX 4            /* that are tried */
#define SCAN_STEPS_LARGE 1024  /* of one gap */
#define JUMPS_SOUGHT 4096      /* bytes of a function in which it is sought whether it jumps on */
#define SCAN_STEPS_GUESS 4 /* frames that make a candidate believable where neither is reached */

/* AddressSanitizer would object to what lies between other functions' locals. */
NO_ASAN static uint64_t stack_word(uint64_t address)
{
    return *(const uint64_t *)address;
}

static __attribute__((noinline)) bool load_guarded(struct unwind *u, uint64_t address)
{
    if (u->guarded_loads >= GUARDED_LOADS_MAX)
        return false;
    u->guarded_loads++;
    return memread(&u->loaded, address, sizeof u->loaded);
}

/* `value` is never in memory for this, where the next step would wait for it.  The bounds are memread_within's, which
 * would take a nanosecond more of five. */
static ALWAYS_INLINE bool load(struct unwind *u, uint64_t address, uint64_t *value)
{
    if (LIKELY(address >= u->stack_low && address + 8 <= u->stack_high && address + 8 > address &&
               !(address & 7))) {
        *value = stack_word(address);
        return true;
    }
    if (!load_guarded(u, address))
        return false;
    *value = u->loaded;
    return true;
}

static _Atomic uint32_t changes = 1; /* of what is loaded */

void unwind_forget_all(void)
{
    if ((atomic_fetch_add(&changes, 1) + 1) % RULES_EPOCHS == 0)
        rules_clear();
}

void unwind_refresh(struct unwind *u)
{
    u->epoch = atomic_load_explicit(&changes, memory_order_relaxed);
}

/* `is_return`: `pc` is that of a call, which will be met again. */
static ALWAYS_INLINE struct cfi_rule find_rule(const struct unwind *u, uint64_t pc, bool is_return)
{
    return rules_find(u->epoch, pc, is_return);
}

/* Has code for which find_rule has just found none one all the same?  CPython's trampoline has; it is found from now
 * on.  Only for frames, not for what a scan tries, which is anything: each is looked at once. */
static __attribute__((noinline)) struct cfi_rule trampoline_rule(const struct unwind *u,
                                                                 uint64_t pc)
{
    struct cfi_rule rule = find_rule(u, pc, true);
    if (rule.cfa_kind != CFA_NONE || rule.is_no_trampoline)
        return rule;
    rule.is_no_trampoline = !cfi_find_trampoline(pc, &rule);
    rules_keep(u->epoch, pc, rule);
    return rule;
}

struct cfi_rule unwind_rule(const struct unwind *u, uint64_t pc)
{
    struct cfi_rule rule = find_rule(u, pc, true);
    return rule.cfa_kind == CFA_NONE ? trampoline_rule(u, pc) : rule;
}

uint64_t unwind_function(const struct unwind *u, uint64_t pc)
{
    return rules_function(u->epoch, pc);
}

static ALWAYS_INLINE bool cfa_of(struct unwind *u, const struct cfi_rule *rule,
                                 const struct unwind_regs *r, uint64_t *cfa)
{
    uint64_t offset = (uint64_t)(int64_t)rule->cfa_offset;
    switch ((enum cfa_kind)rule->cfa_kind) {
    case CFA_RSP:
        *cfa = r->sp + offset;
        return true;
    case CFA_RBP:
        *cfa = r->bp + offset;
        return true;
    case CFA_RBX:
        *cfa = r->bx + offset;
        return true;
    case CFA_R10:
        *cfa = r->r10 + offset;
        return r->r10 != 0;
    case CFA_RBP_DEREF:
        return load(u, r->bp + offset, cfa);
    case CFA_PLT:
        *cfa = r->sp + 8 + ((r->pc & 15) >= offset ? 8 : 0);
        return true;
    case CFA_NONE:
    case CFA_SIGNAL:
    case CFA_END:
        break;
    }
    return false;
}

static ALWAYS_INLINE bool restore(struct unwind *u, uint8_t kind, int16_t offset, uint64_t cfa,
                                  uint64_t bp, uint64_t sp, uint64_t *reg)
{
    if (kind == SAVED_SAME)
        return true;
    uint64_t slot = (kind == SAVED_AT_CFA ? cfa : bp) + (uint64_t)(int64_t)offset;
    /* A slot below sp: an epilogue has popped the register already. */
    return slot < sp || load(u, slot, reg);
}

/* The interrupted registers lie in the ucontext that the kernel pushed; sp points at it. */
static __attribute__((noinline)) bool step_signal(struct unwind *u, struct unwind_regs *r,
                                                  uint64_t *cfa)
{
    uint64_t gregs = r->sp + offsetof(ucontext_t, uc_mcontext.gregs);
    struct unwind_regs next = {0};
    if (!load(u, gregs + 8 * REG_RIP, &next.pc) || !load(u, gregs + 8 * REG_RSP, &next.sp) ||
        !load(u, gregs + 8 * REG_RBP, &next.bp) || !load(u, gregs + 8 * REG_RBX, &next.bx) ||
        !load(u, gregs + 8 * REG_R10, &next.r10))
        return false;
    *cfa = gregs + sizeof(gregset_t);
    *r = next;
    return next.pc != 0;
}

/* Registers stay in registers: in memory they would be written as words and read in pairs, for which the
 * processor has to wait. */
static ALWAYS_INLINE bool step(struct unwind *u, struct unwind_regs *r, bool is_return,
                               uint64_t *cfa, enum cfa_kind *kind)
{
    struct cfi_rule rule = find_rule(u, r->pc, is_return);
    *kind = (enum cfa_kind)rule.cfa_kind;
    if (*kind == CFA_SIGNAL) {
        struct unwind_regs copy = *r;
        uint64_t end = 0;
        bool stepped = step_signal(u, &copy, &end);
        *r = copy;
        *cfa = end;
        return stepped;
    }
    uint64_t ra, at, bp = r->bp, bx = r->bx;
    if (!cfa_of(u, &rule, r, &at) || at <= r->sp || at & 7 || !load(u, at - 8, &ra) ||
        !restore(u, rule.bp_kind, rule.bp_offset, at, r->bp, r->sp, &bp) ||
        !restore(u, rule.bx_kind, rule.bx_offset, at, r->bp, r->sp, &bx))
        return false;
    *cfa = at;
    if (!ra) {
        *kind = CFA_END;
        return true;
    }
    *r = (struct unwind_regs){.pc = ra - 1, .sp = at, .bp = bp, .bx = bx};
    return true;
}

bool unwind_step(struct unwind *u, struct unwind_regs *r, uint64_t *cfa, enum cfa_kind *kind)
{
    return step(u, r, true, cfa, kind);
}

/* Does unwinding from `r` meet `target` exactly (target 0: the thread's root)?  `*steps` is how
 * many frames it took, also if it does not. */
static bool lands(struct unwind *u, struct unwind_regs r, uint64_t target, int *steps)
{
    for (*steps = 0; *steps < SCAN_STEPS && u->scan_steps < SCAN_STEPS_IN_ALL; ++*steps) {
        u->scan_steps++;
        uint64_t cfa;
        enum cfa_kind kind;
        bool stepped = unwind_step(u, &r, &cfa, &kind);
        if (kind == CFA_END)
            return !target;
        if (!stepped || cfa > u->stack_high)
            return false;
        if (target && cfa >= target)
            return cfa == target;
    }
    return false;
}

/* Can `ra` be a return address?  It follows a call, and its caller can be unwound. */
static bool is_return_address(struct unwind *u, uint64_t ra)
{
    if (ra < 4096 || ra >> ARCH_USER_BITS)
        return false;
    uint8_t kind = find_rule(u, ra - 1, false).cfa_kind;
    return kind != CFA_NONE && kind != CFA_SIGNAL && kind != CFA_PLT && cfi_is_mapped(ra - 8) &&
           arch_follows_call((const unsigned char *)ra);
}

/* Could the function at `callee` have jumped to code that has no unwind information?  By its bytes, of which some may
 * look like a jump, or be one within a switch: rather yes than no. */
static bool may_jump_on(struct unwind *u, uint64_t callee)
{
    uint64_t start, end;
    if (!cfi_function(callee, &start, &end) || end - start > JUMPS_SOUGHT ||
        !cfi_is_mapped(start) || !cfi_is_mapped(end - 1))
        return true;
    for (uint64_t at = start; at < end; at++) {
        uint64_t to = arch_jump_target((const unsigned char *)at, end - at);
        if (to == 1)
            return true;
        if (!to || (to >= start && to < end) || !cfi_is_mapped(to))
            continue;
        uint8_t kind = find_rule(u, to, false).cfa_kind;
        if (kind == CFA_NONE || kind == CFA_PLT)
            return true;
    }
    return false;
}

/* The callee of the call before `ra`, where it has unwind information.  Then it is not the code that could not be
 * unwound, unless it jumped there: `ra` may be left over from an earlier call.  0: it is not known, or has none. */
static uint64_t known_callee(struct unwind *u, uint64_t ra)
{
    uint64_t callee = arch_direct_callee((const unsigned char *)ra);
    if (!callee || callee >> ARCH_USER_BITS)
        return 0;
    uint8_t kind = find_rule(u, callee, false).cfa_kind;
    bool is_known = kind != CFA_NONE && kind != CFA_PLT && cfi_is_mapped(callee) &&
                    !arch_is_jump_stub((const unsigned char *)callee);
    return is_known ? callee : 0;
}

/* The end of the words that may be scanned from `from` on, below the target; 0: none. */
static uint64_t scan_end(const struct unwind *u, uint64_t from, uint64_t words, uint64_t target)
{
    uint64_t end = from + 8 * words;
    if (from < u->stack_low || from >= u->stack_high || from & 7)
        return 0;
    if (end > u->stack_high)
        end = u->stack_high;
    return (target && end > target ? target : end) & ~7ull;
}

/* Seeks a return address from `base` upward from which unwinding meets `target`; `r` becomes its frame.  The
 * caller's registers are saved between, rbp anywhere. */
static bool scan_above(struct unwind *u, struct unwind_regs *r, uint64_t base, uint64_t target)
{
    uint64_t end = scan_end(u, base, BASE_WORDS, target);
    for (uint64_t slot = base; slot < end; slot += 8) {
        uint64_t ra = stack_word(slot);
        if (!is_return_address(u, ra) || known_callee(u, ra))
            continue;
        struct unwind_regs next = {.pc = ra - 1, .sp = slot + 8, .bp = r->bp, .bx = r->bx};
        int steps;
        if (lands(u, next, target, &steps)) {
            *r = next;
            return true;
        }
        for (uint64_t saved = base; saved < slot; saved += 8) {
            next.bp = stack_word(saved);
            if (next.bp > slot && next.bp < u->stack_high && lands(u, next, target, &steps)) {
                *r = next;
                return true;
            }
        }
    }
    return false;
}

/* The nearest address of the stack beyond `from`, of those in rbp, rbx and the first words of the frame. */
static uint64_t next_base(const struct unwind *u, const struct unwind_regs *r, uint64_t from)
{
    uint64_t next = u->stack_high, words = scan_end(u, r->sp, BASE_SAVED_WORDS, 0);
    if (r->bp > from && r->bp < next)
        next = r->bp;
    if (r->bx > from && r->bx < next)
        next = r->bx;
    for (uint64_t slot = r->sp; slot < words; slot += 8) {
        uint64_t word = stack_word(slot);
        if (word > from && word < next && !(word & 7))
            next = word;
    }
    return next;
}

/* Kernels that pack matrices on the stack move its pointer down by what they need, tens of kilobytes, and align it
 * to a page; where it was before, the base, they keep in rbp or in the frame's first words (MKL), or in rbx
 * (OpenBLAS).  Other stack addresses there are the callers', so further out, or left over. */
static bool scan_large(struct unwind *u, struct unwind_regs *r, uint64_t target)
{
    uint64_t base = r->sp + 8 * SCAN_WORDS;
    unsigned spent = u->scan_steps;
    bool found = false;
    u->scan_steps = SCAN_STEPS_IN_ALL - SCAN_STEPS_LARGE; /* a budget of its own */
    for (int i = 0; r->sp % BASE_ALIGNMENT == 0 && i < BASES_MAX && !found; i++) {
        base = next_base(u, r, base);
        found = scan_above(u, r, base, target);
    }
    u->scan_steps = spent;
    return found;
}

/* Seeks a return address from `r->sp` upward from which unwinding meets `target`; `r` becomes its
 * frame.  The code in between may have saved rbp (as the standard prologue does) or kept it.
 * Returns 0, or NATIVE_GAP_SCANNED, or NATIVE_GAP_GUESSED if only doubtful ones were found. */
static uint64_t scan(struct unwind *u, struct unwind_regs *r, uint64_t target)
{
    uint64_t end = scan_end(u, r->sp, SCAN_WORDS, target), tries = 0;
    struct unwind_regs guess = {0}, doubtful = {0};
    if (!end)
        return 0;
    for (uint64_t slot = r->sp; slot < end && tries < SCAN_TRIES; slot += 8) {
        uint64_t ra = stack_word(slot);
        if (!is_return_address(u, ra))
            continue;
        tries++;
        uint64_t saved = slot - 8 >= u->stack_low ? stack_word(slot - 8) : r->bp;
        uint64_t candidates[2] = {r->bp, saved};
        for (int i = 0; i < 2; i++) {
            struct unwind_regs next = {
                .pc = ra - 1, .sp = slot + 8, .bp = candidates[i], .bx = r->bx};
            int steps;
            bool landed = lands(u, next, target, &steps);
            bool guessed = !target && !guess.pc && steps >= SCAN_STEPS_GUESS;
            uint64_t callee = landed || guessed ? known_callee(u, ra) : 0;
            if (landed && !callee) {
                *r = next;
                return NATIVE_GAP_SCANNED;
            }
            if ((!landed || doubtful.pc) && !guessed)
                continue;
            if (callee && !may_jump_on(u, callee))
                continue; /* it cannot be the caller */
            if (landed && !doubtful.pc)
                doubtful = next;
            if (guessed)
                guess = next;
        }
    }
    if (scan_large(u, r, target))
        return NATIVE_GAP_SCANNED;
    if (!doubtful.pc && !guess.pc)
        return 0;
    *r = doubtful.pc ? doubtful : guess;
    return NATIVE_GAP_GUESSED;
}

bool unwind_from_anchor(struct unwind *u, uint64_t cfa, struct unwind_regs *regs)
{
    const struct cfi_rule *saved = &u->anchor_rule->saved;
    struct unwind_regs next = {.bp = regs->bp, .bx = regs->bx};
    uint64_t ra;
    if (!load(u, cfa - 8, &ra) ||
        !restore(u, saved->bp_kind, saved->bp_offset, cfa, 0, 0, &next.bp) ||
        !restore(u, saved->bx_kind, saved->bx_offset, cfa, 0, 0, &next.bx))
        return false;
    next.pc = ra - 1;
    next.sp = cfa;
    *regs = next;
    return true;
}

static uint64_t anchor_above(const struct unwind *u, uint64_t sp)
{
    if (u->anchor_rule && u->anchor_rule->cfa)
        for (size_t i = 0; i < u->n_anchors; i++)
            if (u->anchors[i] >= sp)
                return u->anchors[i];
    return 0;
}

/* Passes code that cannot be unwound: `gap` stands for it.  *landing: the CFA of the anchor above it, from
 * which on the registers are known again; 0: there is none.  Without one the walk is to meet its end, if that is known. */
static bool pass_gap(struct unwind *u, struct unwind_regs *r, struct native_frame *gap,
                     uint64_t *landing)
{
    uint64_t anchor = anchor_above(u, r->sp);
    uint64_t target = anchor ? anchor + (uint64_t)u->anchor_rule->cfa : 0;
    uint64_t end = u->stop_slack || u->stop_cfa <= r->sp ? 0 : u->stop_cfa;
    *landing = target;
    gap->pc = 0;
    gap->flags = scan(u, r, target ? target : end);
    if (!gap->flags && anchor && unwind_from_anchor(u, target, r))
        gap->flags = NATIVE_GAP_ANCHORED;
    gap->cfa = r->sp;
    return gap->flags != 0;
}

/* Of `n` frames those that the walk was to end with at last: on its way it was lost, and passed the end. */
static size_t up_to_stop(const struct unwind *u, const struct native_frame *out, size_t n)
{
    while (n > 1 && out[n - 1].cfa > u->stop_cfa + u->stop_slack)
        n--;
    return n;
}

size_t unwind_walk(struct unwind *u, const struct unwind_regs *start, struct native_frame *out,
                   size_t max, enum unwind_end *end)
{
    struct unwind_regs r = *start;
    size_t n = 0;
    uint64_t landing = 0;
    u->guarded_loads = u->scan_steps = 0;
    *end = UNWIND_TOO_DEEP;
    while (n < max) {
        uint64_t pc = r.pc, sp = r.sp, cfa;
        enum cfa_kind kind;
        bool stepped = step(u, &r, n != 0, &cfa, &kind);
        /* A return address of zero below an anchor is none: the CFA was wrong.  clang's unwind information is, between
         * the `add` to rsp and the first `pop` of an epilogue that ends in a jump. */
        if (kind == CFA_END && !(stepped && anchor_above(u, cfa))) {
            if (!stepped)
                cfa = ~0ull;
            out[n++] = (struct native_frame){.pc = pc, .cfa = cfa};
            *end = UNWIND_COMPLETE;
            break;
        }
        if (stepped && kind != CFA_END) {
            /* Nobody calls a signal's trampoline: it returns to where that begins. */
            bool is_begin = kind == CFA_SIGNAL && n;
            out[n++] = (struct native_frame){.pc = pc + is_begin, .cfa = cfa};
            if (unwind_is_stop(u, cfa)) {
                *end = UNWIND_COMPLETE;
                return n;
            }
            if (cfa == landing) {
                struct unwind_regs copy = r;
                unwind_from_anchor(u, cfa, &copy);
                r = copy;
            }
            continue;
        }
        if (kind == CFA_NONE && n && trampoline_rule(u, pc).cfa_kind != CFA_NONE)
            continue; /* with its rule, now */
        *end = UNWIND_TRUNCATED;
        /* The frame itself is known even where its caller is not. */
        out[n++] = (struct native_frame){.pc = pc, .cfa = sp};
        struct unwind_regs copy = r;
        if (n == max || !pass_gap(u, &copy, &out[n], &landing))
            break;
        r = copy;
        n++;
        *end = UNWIND_TOO_DEEP;
    }
    size_t kept = start->sp < u->stop_cfa ? up_to_stop(u, out, n) : n;
    if (kept < n)
        *end = UNWIND_TRUNCATED;
    return kept;
}
