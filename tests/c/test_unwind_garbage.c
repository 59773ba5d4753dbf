/* Registers and stacks that make no sense: a walk ends, within its bounds, and harms nothing. */
#include "walk.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memread.h"

#define N_WALKS 100000
#define GARBAGE 512 /* words of the stack that hold anything */
#define CANARY 0x5afe5afe5afe5afe
#define GUARDED_LOADS_MAX 256 /* as unwind.c has it */

static uint64_t random_state;
static unsigned char *edge; /* a page boundary: readable below, not above */
static uint64_t text, libc, vdso, function_entry, return_address, trampoline;

static uint64_t random_below(uint64_t n)
{
    return unit_random(&random_state) % n;
}

/* A word of the kinds that meet an unwinder: sense and nonsense. */
static uint64_t random_word(const struct unwind *u)
{
    uint64_t size = u->stack_high - u->stack_low;
    switch (random_below(16)) {
    case 0:
        return unit_random(&random_state);
    case 1:
        return unit_random(&random_state) >> 17; /* 47 bits */
    case 2:
        return random_below(8192);
    case 3:
        return 0 - random_below(4096);
    case 4:
        return u->stack_low + random_below(size);
    case 5:
        return u->stack_low + 8 * random_below(size / 8);
    case 6:
        return u->stack_high - 8 * random_below(64);
    case 7:
        return (uint64_t)edge + 16 - random_below(64);
    case 8:
        return text + random_below(4096);
    case 9:
        return vdso + random_below(8192);
    case 10:
        return u->stack_low - random_below(4096);
    case 11:
        return trampoline;
    case 12: /* unwinds a word at a time, and so to whatever comes next */
    case 13:
        return function_entry + 1;
    case 14:
        return return_address;
    default:
        return libc + random_below(1 << 20);
    }
}

static struct native_frame frames[65];

/* How often a walk met what, to know that garbage gets anywhere. */
static struct {
    size_t ends[UNWIND_TOO_DEEP + 1], flags[NATIVE_GAP_GUESSED + 1];
    size_t frames, signal_frames, foreign_stacks;
} met;

static void count(const struct unwind *u, size_t n, enum unwind_end end)
{
    met.ends[end]++;
    met.frames += n;
    met.foreign_stacks += u->guarded_loads > 0;
    for (size_t i = 0; i < n; i++) {
        met.flags[frames[i].flags]++;
        met.signal_frames += frames[i].pc && walk_kind(frames[i].pc) == CFA_SIGNAL;
    }
}

/* One walk of at most `max` frames; returns what is wrong with it, or NULL. */
static const char *walk_garbage(struct unwind *u, const struct unwind_regs *regs, size_t max)
{
    enum unwind_end end = (enum unwind_end)77;
    for (size_t i = 0; i < 65; i++)
        frames[i] = (struct native_frame){CANARY, CANARY, CANARY};
    size_t n = unwind_walk(u, regs, frames, max, &end);
    if (!n || n > max)
        return "a number of frames out of range";
    if (end != UNWIND_COMPLETE && end != UNWIND_TRUNCATED && end != UNWIND_TOO_DEEP)
        return "no end";
    if (end == UNWIND_TOO_DEEP && n != max)
        return "too deep with room left";
    if (u->guarded_loads > GUARDED_LOADS_MAX)
        return "too many guarded loads";
    for (size_t i = 0; i < 65; i++) {
        if (i >= max && frames[i].flags != CANARY)
            return "frames beyond the room for them";
        if (i >= n)
            continue;
        if (frames[i].flags > NATIVE_GAP_GUESSED)
            return "an unknown flag";
        if (frames[i].flags && frames[i].pc)
            return "a gap with a pc";
    }
    count(u, n, end);
    return frames[0].pc == regs->pc ? NULL : "another innermost pc";
}

static void many_walks(bool with_anchors)
{
    uint64_t garbage[GARBAGE];
    struct unwind u = walk_unwinder((uint64_t)__builtin_frame_address(0) - 4096);
    u.stack_low = (uint64_t)garbage & ~4095ull;
    struct anchor_rule rule;
    uint64_t anchors[4];
    memset(&met, 0, sizeof met);
    random_state = 20240607;
    for (int i = 0; i < N_WALKS; i++) {
        uint64_t seed = random_state;
        if (i % 16 == 0)
            for (int k = 0; k < GARBAGE; k++)
                garbage[k] = random_word(&u);
        struct unwind_regs regs = {.pc = random_word(&u),
                                   .sp = random_word(&u),
                                   .bp = random_word(&u),
                                   .bx = random_word(&u),
                                   .r10 = random_word(&u)};
        if (random_below(2)) /* the likeliest: only the frames are broken */
            regs.sp = (uint64_t)&garbage[random_below(GARBAGE)];
        if (with_anchors) {
            for (int k = 0; k < 4; k++)
                anchors[k] =
                    random_below(2) ? (uint64_t)&garbage[GARBAGE / 4 * k] : random_word(&u);
            rule.cfa = (int64_t)random_below(512);
            cfi_find(text + random_below(4096), &rule.saved);
            u.anchors = anchors;
            u.n_anchors = random_below(5);
            u.anchor_rule = &rule;
        }
        /* Where the root lies out of bounds, the way on can only be guessed. */
        u.stack_high = random_below(4) ? walk_stack_end() : (uint64_t)(garbage + GARBAGE);
        size_t max = 1 + random_below(64);
        const char *wrong = walk_garbage(&u, &regs, max);
        if (wrong)
            fail_msg("walk %d (state %#lx): %s", i, (unsigned long)seed, wrong);
    }
    for (int i = 0; i <= UNWIND_TOO_DEEP; i++)
        assert_true(met.ends[i] > 100);
    assert_true(met.flags[NATIVE_GAP_SCANNED] > 0);
    assert_true(met.flags[with_anchors ? NATIVE_GAP_ANCHORED : NATIVE_GAP_GUESSED] > 0);
    assert_true(met.signal_frames > 0);
    assert_true(met.foreign_stacks > 1000);
}

static void an_unreadable_stack_pointer_ends_the_walk(void **state)
{
    (void)state;
    const uint64_t pointers[] = {0,
                                 8,
                                 4096,
                                 (uint64_t)edge,
                                 ~0ull,
                                 0 - 8ull,
                                 1ull << 47,
                                 (uint64_t)edge + 8,
                                 1ull << 63,
                                 1ull << 46,
                                 (uint64_t)edge + 4088};
    memset(&met, 0, sizeof met);
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        struct unwind u = walk_unwinder((uint64_t)__builtin_frame_address(0) - 4096);
        /* At its entry a function's CFA is sp + 8. */
        struct unwind_regs regs = {.pc = function_entry, .sp = pointers[i]};
        const char *wrong = walk_garbage(&u, &regs, 64);
        if (wrong)
            fail_msg("sp %#lx: %s", (unsigned long)pointers[i], wrong);
        assert_int_equal(met.ends[UNWIND_TRUNCATED], i + 1);
        assert_int_equal(met.frames, i + 1);
    }
}

static void a_readable_foreign_stack_is_walked(void **state)
{
    (void)state;
    struct unwind u = walk_unwinder((uint64_t)__builtin_frame_address(0) - 4096);
    uint64_t *top = (uint64_t *)edge - 2;
    top[0] = function_entry + 1;
    top[1] = function_entry + 1;
    struct unwind_regs regs = {.pc = function_entry, .sp = (uint64_t)top};
    enum unwind_end end;
    assert_int_equal(unwind_walk(&u, &regs, frames, 64, &end), 3);
    assert_int_equal(end, UNWIND_TRUNCATED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(frames[i].pc, function_entry);
    assert_int_equal(frames[0].cfa, (uint64_t)edge - 8);
    assert_int_equal(frames[1].cfa, (uint64_t)edge);
}

static void guarded_loads_are_bounded(void **state)
{
    (void)state;
    enum { N = GUARDED_LOADS_MAX + 100 };
    static struct native_frame many[N];
    struct unwind u = walk_unwinder((uint64_t)__builtin_frame_address(0) - 4096);
    uint64_t *words = (uint64_t *)edge - N;
    for (int i = 0; i < N; i++)
        words[i] = function_entry + 1;
    struct unwind_regs regs = {.pc = function_entry, .sp = (uint64_t)words};
    enum unwind_end end;
    assert_int_equal(unwind_walk(&u, &regs, many, N, &end), GUARDED_LOADS_MAX + 1);
    assert_int_equal(end, UNWIND_TRUNCATED);
    assert_int_equal(u.guarded_loads, GUARDED_LOADS_MAX);
}

static void random_registers(void **state)
{
    (void)state;
    many_walks(false);
}

static void random_registers_and_anchors(void **state)
{
    (void)state;
    many_walks(true);
}

/* Where signal handlers return to (the kernel's struct sigaction, man 2 sigreturn). */
static uint64_t signal_trampoline(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {0};
    signal(SIGUSR1, SIG_IGN);
    syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof action.mask);
    return (uint64_t)action.restorer;
}

static int set_up_all(void **state)
{
    (void)state;
    unsigned char *pages =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE))
        return -1;
    edge = pages + 4096;
    return_address = (uint64_t)__builtin_return_address(0);
    trampoline = signal_trampoline();
    text = (uint64_t)many_walks;
    libc = (uint64_t)dlsym(RTLD_DEFAULT, "qsort") - (1 << 19);
    function_entry = (uint64_t)dlsym(RTLD_DEFAULT, "strtol");
    vdso = getauxval(AT_SYSINFO_EHDR);
    return memread_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unreadable_stack_pointer_ends_the_walk),
        cmocka_unit_test(a_readable_foreign_stack_is_walked),
        cmocka_unit_test(guarded_loads_are_bounded),
        cmocka_unit_test(random_registers),
        cmocka_unit_test(random_registers_and_anchors),
    };
    return cmocka_run_group_tests_name("unwind garbage", tests, set_up_all, NULL);
}
