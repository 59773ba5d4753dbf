/* Code without unwind information: a few bytes of machine code in a page of their own, which call
 * back into C.  What lies beyond them must be found again. */
#include "walk.h"

#include <signal.h>
#include <sys/mman.h>

#include "memread.h"

#define NOINLINE __attribute__((noipa))
#define USE(p) __asm__ volatile("" : : "r"(p) : "memory")

typedef void callback(void);

/* Machine code, called as f(callback), and where its call returns to. */
struct machine_code {
    const char *name;
    unsigned char bytes[56];
    size_t size, return_offset, frame_bytes; /* CFA - sp at the call; 0: not constant */
};

static const struct machine_code with_frame_pointer = {
    "with a frame pointer",
    {0x55,             /* push %rbp */
     0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
     0xff, 0xd7,       /* call *%rdi */
     0x5d,             /* pop %rbp */
     0xc3},
    8,
    6,
    16,
};

static const struct machine_code without_frame_pointer = {
    "without a frame pointer",
    {0x48, 0x83, 0xec, 0x18, /* sub $24, %rsp */
     0xff, 0xd7,             /* call *%rdi */
     0x48, 0x83, 0xc4, 0x18, /* add $24, %rsp */
     0xc3},
    11,
    6,
    32,
};

/* Turns its return address around while it calls: no scan can find it. */
static const struct machine_code hiding = {
    "that hides its return address",
    {0x48, 0xf7, 0x14, 0x24, /* notq (%rsp) */
     0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
     0xff, 0xd7,             /* call *%rdi */
     0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
     0x48, 0xf7, 0x14, 0x24, /* notq (%rsp) */
     0xc3},
    19,
    10,
    16,
};

/* As MKL's kernels that pack matrices on the stack, and OpenBLAS's. */
static const struct machine_code with_base_in_rbp = {
    "with its base in rbp",
    {0x48, 0x83, 0xec, 0x40,                   /* sub $64, %rsp */
     0x48, 0x89, 0x6c, 0x24, 0x08,             /* mov %rbp, 8(%rsp) */
     0x48, 0x89, 0xe5,                         /* mov %rsp, %rbp */
     0x48, 0x81, 0xec, 0x00, 0x60, 0x00, 0x00, /* sub $24576, %rsp */
     0x48, 0x81, 0xe4, 0x00, 0xf0, 0xff, 0xff, /* and $-4096, %rsp */
     0xff, 0xd7,                               /* call *%rdi */
     0x48, 0x89, 0xec,                         /* mov %rbp, %rsp */
     0x48, 0x8b, 0x6c, 0x24, 0x08,             /* mov 8(%rsp), %rbp */
     0x48, 0x83, 0xc4, 0x40,                   /* add $64, %rsp */
     0xc3},
    41,
    28,
    0,
};

static const struct machine_code with_base_in_rbx = {
    "with its base in rbx",
    {0x48, 0x83, 0xec, 0x40,                   /* sub $64, %rsp */
     0x48, 0x89, 0x1c, 0x24,                   /* mov %rbx, (%rsp) */
     0x48, 0x89, 0xe3,                         /* mov %rsp, %rbx */
     0x48, 0x81, 0xec, 0x00, 0x60, 0x00, 0x00, /* sub $24576, %rsp */
     0x48, 0x81, 0xe4, 0x00, 0xf0, 0xff, 0xff, /* and $-4096, %rsp */
     0xff, 0xd7,                               /* call *%rdi */
     0x48, 0x89, 0xdc,                         /* mov %rbx, %rsp */
     0x48, 0x8b, 0x1c, 0x24,                   /* mov (%rsp), %rbx */
     0x48, 0x83, 0xc4, 0x40,                   /* add $64, %rsp */
     0xc3},
    39,
    27,
    0,
};

static const struct machine_code with_base_in_memory = {
    "with its base in memory",
    {0x48, 0x83, 0xec, 0x40,                   /* sub $64, %rsp */
     0x48, 0x89, 0x6c, 0x24, 0x08,             /* mov %rbp, 8(%rsp) */
     0x48, 0x89, 0xe5,                         /* mov %rsp, %rbp */
     0x48, 0x81, 0xec, 0x00, 0x60, 0x00, 0x00, /* sub $24576, %rsp */
     0x48, 0x81, 0xe4, 0x00, 0xf0, 0xff, 0xff, /* and $-4096, %rsp */
     0x48, 0x89, 0x6c, 0x24, 0x70,             /* mov %rbp, 112(%rsp) */
     0x31, 0xed,                               /* xor %ebp, %ebp */
     0xff, 0xd7,                               /* call *%rdi */
     0x48, 0x8b, 0x64, 0x24, 0x70,             /* mov 112(%rsp), %rsp */
     0x48, 0x8b, 0x6c, 0x24, 0x08,             /* mov 8(%rsp), %rbp */
     0x48, 0x83, 0xc4, 0x40,                   /* add $64, %rsp */
     0xc3},
    50,
    35,
    0,
};

/* CPython's perf trampoline (but for the first instruction), of 3.12 and of 3.14. */
static const struct machine_code trampolines[] = {
    {
        "of a trampoline",
        {0x48, 0x89, 0xf9,       /* mov %rdi, %rcx */
         0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
         0xff, 0xd1,             /* call *%rcx */
         0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
         0xc3},
        14,
        9,
        16,
    },
    {
        "of a trampoline with a frame pointer",
        {0x90, 0x90, 0x90, 0x90, /* nop */
         0x48, 0x89, 0xf9,       /* mov %rdi, %rcx */
         0x55,                   /* push %rbp */
         0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
         0xff, 0xd1,             /* call *%rcx */
         0x5d,                   /* pop %rbp */
         0xc3},
        15,
        13,
        16,
    },
};

static const struct machine_code *const ordinary[] = {
    &with_frame_pointer, &without_frame_pointer, &with_base_in_rbp,
    &with_base_in_rbx,   &with_base_in_memory,
};
#define N_ORDINARY (int)(sizeof ordinary / sizeof *ordinary)

static unsigned char *page;
static const struct machine_code *code; /* what the page holds */

static void load_code(const struct machine_code *c)
{
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    memcpy(page, c->bytes, c->size);
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    code = c;
}

/* Leaves no old return address where the next calls will have their frames: a scan might take it
 * for the way on. */
void scrub(void);
__asm__(".text\n.globl scrub\n.hidden scrub\n.type scrub, @function\n"
        "scrub: .cfi_startproc\n"
        "mov %rsp, %rax\n mov $4096, %ecx\n"
        "1: sub $8, %rax\n movq $0, (%rax)\n dec %ecx\n jnz 1b\n"
        "ret\n.cfi_endproc\n.size scrub, . - scrub\n");

__attribute__((always_inline)) static inline void call_code(callback *f)
{
    scrub();
    ((void (*)(callback *))(void *)page)(f);
}

static uint64_t code_return(void)
{
    return (uint64_t)page + code->return_offset - 1;
}

static struct walk outer, inner; /* from before the code was called, and from the callback */
static struct unwind unwinder;   /* of the walk in the callback; its bounds are set before */

/* Not on the stack: it holds an address that looks like a return address. */
static ucontext_t context;

static void prepare(void)
{
    walk_from(&context, &outer);
    assert_int_equal(outer.end, UNWIND_COMPLETE);
    unwinder = walk_unwinder((uint64_t)context.uc_mcontext.gregs[REG_RSP]);
}

static bool tries_before; /* as a scan does, which meets old return addresses of the code */

NOINLINE static void walk_inside(void)
{
    ucontext_t here;
    getcontext(&here);
    if (tries_before) {
        struct unwind_regs regs = {.pc = code_return(),
                                   .sp = (uint64_t)here.uc_mcontext.gregs[REG_RSP]};
        enum cfa_kind kind;
        uint64_t cfa;
        unwind_forget_all(); /* what walks before have learned */
        unwind_refresh(&unwinder);
        assert_false(unwind_step(&unwinder, &regs, &cfa, &kind));
    }
    unwinder.stack_low = (uint64_t)here.uc_mcontext.gregs[REG_RSP] & ~4095ull;
    walk_with(&unwinder, &here, &inner);
    NO_TAIL_CALL();
}

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        walk_print("outside", &outer);                                                             \
        walk_print("inside", &inner);                                                              \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

/* Are the frames of `inner` from `at` on those of `outer` from `from` on?  The first of them has
 * gone on since. */
static void expect_outer(size_t at, size_t from)
{
    if (inner.end != UNWIND_COMPLETE || inner.n - at != outer.n - from)
        FAIL("the rest of the frames is not there (code %s)", code->name);
    for (size_t i = 0; i + from < outer.n; i++) {
        const struct native_frame *a = &inner.frames[at + i], *b = &outer.frames[from + i];
        if (a->cfa != b->cfa || a->flags != b->flags || (a->pc != b->pc && i + from > 0))
            FAIL("frame %zu differs (code %s)", at + i, code->name);
    }
}

/* At `at` in `inner`: the frame of the code, and the gap up to its CFA. */
static void expect_gap(size_t at, uint64_t flags)
{
    if (at + 2 > inner.n || inner.frames[at].pc != code_return() || inner.frames[at].flags)
        FAIL("frame %zu is not that of the code %s", at, code->name);
    const struct native_frame *gap = &inner.frames[at + 1];
    if (gap->pc || gap->flags != flags)
        FAIL("frame %zu is not the wanted gap (code %s)", at + 1, code->name);
    if (flags != NATIVE_GAP_ANCHORED && code->frame_bytes &&
        gap->cfa != inner.frames[at].cfa + code->frame_bytes)
        FAIL("the gap's CFA is wrong (code %s)", code->name);
}

/* Functions that call the code, with and without a frame pointer that must survive it. */

NOINLINE static void from_a_plain_function(void)
{
    getcontext(&context);
    prepare();
    call_code(walk_inside);
    NO_TAIL_CALL();
}

static volatile size_t hundred = 100;

NOINLINE static void from_a_function_with_a_frame_pointer(void)
{
    char p[hundred];
    USE(p);
    getcontext(&context);
    prepare();
    call_code(walk_inside);
    NO_TAIL_CALL();
}

NOINLINE static void below_a_frame_pointer(callback *f)
{
    char p[hundred];
    USE(p);
    scrub();
    f();
    NO_TAIL_CALL();
}

static callback *const callers[] = {from_a_plain_function, from_a_function_with_a_frame_pointer};

static void a_gap_is_bridged_and_the_frames_beyond_are_exact(void **state)
{
    (void)state;
    for (int c = 0; c < N_ORDINARY; c++)
        for (int f = 0; f < 2; f++) {
            load_code(ordinary[c]);
            below_a_frame_pointer(callers[f]);
            expect_gap(1, NATIVE_GAP_SCANNED);
            expect_outer(3, 0);
        }
}

/* Also where a scan has met their return addresses before. */
static void trampolines_are_no_gaps(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++)
        for (int f = 0; f < 4; f++) {
            load_code(&trampolines[c]);
            tries_before = f >= 2;
            below_a_frame_pointer(callers[f % 2]);
            tries_before = false;
            if (inner.frames[1].pc != code_return() || inner.frames[1].flags ||
                inner.frames[1].cfa != inner.frames[0].cfa + code->frame_bytes)
                FAIL("frame 1 is not that %s", code->name);
            expect_outer(2, 0);
        }
}

/* The walk starts in the code itself, as a sample may. */
static const struct machine_code interrupted = {
    "that is interrupted",
    {0x48, 0x83, 0xec, 0x18, /* sub $24, %rsp */
     0xcc,                   /* int3 */
     0x90,                   /* nop; the frame's own pc is not a return address */
     0x48, 0x83, 0xc4, 0x18, /* add $24, %rsp */
     0xc3},
    11,
    6,
    32,
};

static void walk_interrupted(int signal, siginfo_t *info, void *interrupted_context)
{
    (void)signal;
    (void)info;
    const ucontext_t *here = interrupted_context;
    unwinder.stack_low = (uint64_t)here->uc_mcontext.gregs[REG_RSP] & ~4095ull;
    walk_with(&unwinder, here, &inner);
}

static void the_code_may_be_what_is_interrupted(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = walk_interrupted, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGTRAP, &action, &old);
    for (int f = 0; f < 2; f++) {
        load_code(&interrupted);
        below_a_frame_pointer(callers[f]);
        expect_gap(0, NATIVE_GAP_SCANNED);
        expect_outer(2, 0);
    }
    sigaction(SIGTRAP, &old, NULL);
}

/* Where the root is out of reach, the nearest believable return address is taken, and marked. */

#define DEPTH 10

static size_t visible; /* so many outer frames lie inside the bounds */

NOINLINE static void with_bounds(void)
{
    getcontext(&context);
    prepare();
    unwinder.stack_high = outer.frames[visible - 1].cfa;
    call_code(walk_inside);
    NO_TAIL_CALL();
}

NOINLINE static void deep(int depth)
{
    if (depth)
        deep(depth - 1);
    else
        with_bounds();
    NO_TAIL_CALL();
}

static void without_the_root_the_way_on_is_a_guess(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        load_code(ordinary[c]);
        visible = 8;
        deep(DEPTH);
        expect_gap(1, NATIVE_GAP_GUESSED);
        expect_outer(3, 0);
    }
}

static void too_few_frames_are_not_believed(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        load_code(ordinary[c]);
        visible = 3;
        deep(DEPTH);
        assert_int_equal(inner.end, UNWIND_TRUNCATED);
        assert_int_equal(inner.n, 2);
        assert_int_equal(inner.frames[1].pc, code_return());
    }
}

/* Anchors, as pyframe.c makes them: a local of a function at a constant distance from its CFA. */

static struct anchor_rule rule;
static bool rule_is_known;
static uint64_t anchors[2];
static callback *below_the_anchor;
static bool with_leftovers;

/* Never called.  By its rules, which are wrong, it leaves rbp alone. */
extern const unsigned char leftover_return[] __attribute__((visibility("hidden")));
__asm__(".text\n.type leftover, @function\n"
        "leftover: .cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n mov %rsp, %rbp\n.cfi_def_cfa_register 6\n"
        "call *%rax\n"
        ".globl leftover_return\n.hidden leftover_return\nleftover_return:\n"
        "pop %rbp\n.cfi_def_cfa 7, 8\n"
        "ret\n.cfi_endproc\n.size leftover, . - leftover\n");

/* The same after a direct call: of a function that only returns, and of one that jumps on. */
extern const unsigned char plain_return[] __attribute__((visibility("hidden")));
extern const unsigned char jump_return[] __attribute__((visibility("hidden")));
__asm__(".text\n.type returns, @function\n"
        "returns: .cfi_startproc\n nop\n ret\n.cfi_endproc\n.size returns, . - returns\n"
        ".type jumps, @function\n"
        "jumps: .cfi_startproc\n nop\n jmp *%rax\n.cfi_endproc\n.size jumps, . - jumps\n"
        ".type plain, @function\n"
        "plain: .cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n mov %rsp, %rbp\n.cfi_def_cfa_register 6\n"
        "call returns\n"
        ".globl plain_return\n.hidden plain_return\nplain_return:\n"
        "call jumps\n"
        ".globl jump_return\n.hidden jump_return\njump_return:\n"
        "pop %rbp\n.cfi_def_cfa 7, 8\n"
        "ret\n.cfi_endproc\n.size plain, . - plain\n");

static const unsigned char *leftover_return_used = leftover_return;

/* It saves rbp, as CPython's eval loop does. */
__attribute__((noipa, optimize("no-omit-frame-pointer"))) static void anchored(void)
{
    volatile uint64_t anchor = 0, leftovers[2] = {0};
    getcontext(&context);
    prepare();
    if (with_leftovers) {
        leftovers[0] = outer.frames[0].cfa - 16;
        leftovers[1] = (uint64_t)leftover_return_used;
    }
    uint64_t address = (uint64_t)&anchor;
    assert_true(address >= (uint64_t)context.uc_mcontext.gregs[REG_RSP]);
    assert_true(address < outer.frames[0].cfa);
    rule.cfa = rule_is_known ? (int64_t)(outer.frames[0].cfa - address) : 0;
    cfi_find(outer.frames[0].pc, &rule.saved);
    anchors[0] = address - 100000; /* of a call that is over */
    anchors[1] = address;
    unwinder.anchors = anchors;
    unwinder.n_anchors = 2;
    unwinder.anchor_rule = &rule;
    if (below_the_anchor)
        below_the_anchor();
    else
        call_code(walk_inside);
    NO_TAIL_CALL();
}

static uint64_t between_cfa;
static bool ends_between; /* the walk, with middle() */

NOINLINE static void middle(void)
{
    between_cfa = (uint64_t)__builtin_dwarf_cfa();
    unwinder.stop_cfa = ends_between ? between_cfa : 0;
    call_code(walk_inside);
    NO_TAIL_CALL();
}

static void frames_below_an_anchor_survive_where_a_scan_meets_it(void **state)
{
    (void)state;
    for (int c = 0; c < N_ORDINARY; c++) {
        load_code(ordinary[c]);
        below_the_anchor = middle;
        below_a_frame_pointer(anchored);
        expect_gap(1, NATIVE_GAP_SCANNED);
        assert_int_equal(inner.frames[3].cfa, between_cfa);
        expect_outer(4, 0);
    }
}

/* The frame that holds the anchor is lost, those beyond it are exact. */
static void else_the_walk_goes_on_at_the_anchor(void **state)
{
    (void)state;
    load_code(&hiding);
    below_the_anchor = NULL;
    below_a_frame_pointer(anchored);
    expect_gap(1, NATIVE_GAP_ANCHORED);
    assert_int_equal(inner.frames[2].cfa, outer.frames[0].cfa);
    expect_outer(3, 1);
}

/* By its rules, which are wrong, its return address is where it keeps a zero. */
void ends_in_zero(callback *);
extern const unsigned char ends_in_zero_return[] __attribute__((visibility("hidden")));
__asm__(".text\n.globl ends_in_zero\n.hidden ends_in_zero\n.type ends_in_zero, @function\n"
        "ends_in_zero: .cfi_startproc\n"
        "sub $24, %rsp\n movq $0, (%rsp)\n"
        "call *%rdi\n"
        ".globl ends_in_zero_return\n.hidden ends_in_zero_return\nends_in_zero_return:\n"
        "add $24, %rsp\n"
        "ret\n.cfi_endproc\n.size ends_in_zero, . - ends_in_zero\n");

static void (*volatile call_to_zero)(callback *) = ends_in_zero;

NOINLINE static void through_zero(void)
{
    between_cfa = (uint64_t)__builtin_dwarf_cfa();
    scrub();
    call_to_zero(walk_inside);
    NO_TAIL_CALL();
}

/* Zero ends a stack; below an anchor it cannot. */
static void no_stack_ends_below_an_anchor(void **state)
{
    (void)state;
    load_code(ordinary[0]); /* for the messages */
    below_the_anchor = through_zero;
    below_a_frame_pointer(anchored);
    assert_int_equal(inner.frames[1].pc, (uint64_t)ends_in_zero_return - 1);
    assert_int_equal(inner.frames[2].flags, NATIVE_GAP_SCANNED);
    assert_int_equal(inner.frames[3].cfa, between_cfa);
    expect_outer(4, 0);
}

/* As a JIT may. */
static const struct machine_code using_rbp = {
    "that uses rbp for something else",
    {
        0x48, 0x83, 0xec, 0x18,       /* sub $24, %rsp */
        0x48, 0x89, 0x2c, 0x24,       /* mov %rbp, (%rsp) */
        0x31, 0xed,                   /* xor %ebp, %ebp */
        0xff, 0xd7,                   /* call *%rdi */
        0x48, 0x8b, 0x2c, 0x24,       /* mov (%rsp), %rbp */
        0x48, 0x83, 0xc4, 0x18, 0xc3, /* add $24, %rsp; ret */
    },
    21,
    12,
    32,
};

/* A return address of a call that is over leads to the anchor, too, and spoils rbp on its way. */
static void a_false_frame_ends_at_the_anchor(void **state)
{
    (void)state;
    load_code(&using_rbp);
    below_the_anchor = NULL;
    with_leftovers = true;
    below_a_frame_pointer(anchored);
    with_leftovers = false;
    assert_int_equal(inner.frames[2].flags, NATIVE_GAP_SCANNED);
    assert_int_equal(inner.frames[3].pc, (uint64_t)leftover_return - 1);
    assert_int_equal(inner.frames[3].cfa, outer.frames[0].cfa);
    expect_outer(4, 1);
}

/* What it called is known, and is not the code below it. */
static void a_caller_that_cannot_be_is_left_out(void **state)
{
    (void)state;
    load_code(&using_rbp);
    below_the_anchor = NULL;
    with_leftovers = true;
    leftover_return_used = plain_return;
    below_a_frame_pointer(anchored);
    expect_gap(1, NATIVE_GAP_ANCHORED);
    assert_int_equal(inner.frames[2].cfa, outer.frames[0].cfa);
    expect_outer(3, 1);
    leftover_return_used = jump_return;
    below_a_frame_pointer(anchored);
    assert_int_equal(inner.frames[2].flags, NATIVE_GAP_GUESSED);
    assert_int_equal(inner.frames[3].pc, (uint64_t)jump_return - 1);
    expect_outer(4, 1);
    leftover_return_used = leftover_return;
    with_leftovers = false;
}

static void without_a_rule_anchors_are_not_used(void **state)
{
    (void)state;
    load_code(&hiding);
    rule_is_known = false;
    below_the_anchor = NULL;
    below_a_frame_pointer(anchored);
    rule_is_known = true;
    /* What calls the anchored function is found by its return address. */
    assert_int_equal(inner.frames[1].pc, code_return());
    assert_int_equal(inner.frames[2].flags, NATIVE_GAP_SCANNED);
    assert_int_equal(inner.frames[2].cfa, outer.frames[0].cfa);
    expect_outer(3, 1);
}

/* The code calls C, which calls the code. */

static callback *between;
static struct walk outermost;

NOINLINE static void twice(void)
{
    getcontext(&context);
    prepare();
    outermost = outer;
    call_code(between);
    NO_TAIL_CALL();
}

static void gaps_with_an_anchor_between_are_bridged_each(void **state)
{
    (void)state;
    for (int c = 0; c < N_ORDINARY; c++) {
        load_code(ordinary[c]);
        below_the_anchor = NULL;
        between = anchored;
        below_a_frame_pointer(twice);
        expect_gap(1, NATIVE_GAP_SCANNED);
        expect_outer(3, 0);
        /* The walk from the anchored function has the outer gap. */
        inner = outer;
        outer = outermost;
        expect_gap(1, NATIVE_GAP_SCANNED);
        expect_outer(3, 0);
    }
}

/* Nothing that is known is met before the second gap: at least what lies beyond both is exact. */
static void gaps_without_an_anchor_between_may_become_one(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        load_code(ordinary[c]);
        between = middle;
        below_a_frame_pointer(twice);
        assert_int_equal(inner.frames[1].pc, code_return());
        assert_int_equal(inner.frames[2].flags, NATIVE_GAP_SCANNED);
        assert_true(inner.n + 1 >= outermost.n + 3);
        expect_outer(inner.n + 1 - outermost.n, 1);
    }
}

static void no_gap_is_passed_beyond_where_the_walk_ends(void **state)
{
    (void)state;
    ends_between = true;
    between = middle;
    for (int c = 0; c < N_ORDINARY; c++) {
        load_code(ordinary[c]);
        below_a_frame_pointer(twice);
        expect_gap(1, NATIVE_GAP_SCANNED);
        assert_int_equal(inner.end, UNWIND_COMPLETE);
        assert_int_equal(inner.n, 4);
        assert_int_equal(inner.frames[3].cfa, between_cfa);
    }
    load_code(&hiding); /* also where nothing leads there */
    below_a_frame_pointer(twice);
    assert_true(inner.n >= 2);
    assert_true(inner.frames[inner.n - 1].cfa <= between_cfa);
    ends_between = false;
}

NOINLINE static void misses_its_end(void)
{
    getcontext(&context);
    prepare();
    unwinder.stop_cfa = outer.frames[0].cfa + 8;
    walk_with(&unwinder, &context, &inner);
    NO_TAIL_CALL();
}

static void what_lies_beyond_the_end_of_a_walk_is_left_out(void **state)
{
    (void)state;
    misses_its_end();
    assert_int_equal(inner.end, UNWIND_TRUNCATED);
    assert_int_equal(inner.n, 1);
    assert_int_equal(inner.frames[0].cfa, outer.frames[0].cfa);
}

static int set_up_all(void **state)
{
    (void)state;
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rule_is_known = true;
    return page == MAP_FAILED ? -1 : memread_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_bridged_and_the_frames_beyond_are_exact),
        cmocka_unit_test(trampolines_are_no_gaps),
        cmocka_unit_test(the_code_may_be_what_is_interrupted),
        cmocka_unit_test(without_the_root_the_way_on_is_a_guess),
        cmocka_unit_test(too_few_frames_are_not_believed),
        cmocka_unit_test(frames_below_an_anchor_survive_where_a_scan_meets_it),
        cmocka_unit_test(else_the_walk_goes_on_at_the_anchor),
        cmocka_unit_test(no_stack_ends_below_an_anchor),
        cmocka_unit_test(a_false_frame_ends_at_the_anchor),
        cmocka_unit_test(a_caller_that_cannot_be_is_left_out),
        cmocka_unit_test(without_a_rule_anchors_are_not_used),
        cmocka_unit_test(gaps_with_an_anchor_between_are_bridged_each),
        cmocka_unit_test(gaps_without_an_anchor_between_may_become_one),
        cmocka_unit_test(no_gap_is_passed_beyond_where_the_walk_ends),
        cmocka_unit_test(what_lies_beyond_the_end_of_a_walk_is_left_out),
    };
    return cmocka_run_group_tests_name("unwind gaps", tests, set_up_all, NULL);
}
