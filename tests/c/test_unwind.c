#include "chain.h"

#include <signal.h>
#include <stdlib.h>

#include "memread.h"

static void check(link_function *const *links)
{
    chain_run(links);
    assert_int_equal(ours.end, UNWIND_COMPLETE);
    assert_int_equal(ours.frames[ours.n - 1].cfa, ~0ull);
    chain_check_notes();
    const char *wrong = chain_difference(&ours, &theirs);
    if (wrong) {
        walk_print("ours", &ours);
        walk_print("libunwind", &theirs);
        fail_msg("libunwind has %s", wrong);
    }
}

#define CHAIN(name, ...)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static link_function *const links[] = {__VA_ARGS__, compare_walks};                        \
        (void)state;                                                                               \
        check(links);                                                                              \
    }

CHAIN(a_call, plain)
CHAIN(frame_pointers, framed, framed, frameless, framed)
CHAIN(no_frame_pointers, frameless, frameless)
CHAIN(a_frame_of_variable_size, variable_size, frameless, plain)
CHAIN(an_aligned_frame, aligned, frameless)
CHAIN(an_aligned_frame_of_variable_size, aligned_variable_size, frameless)
CHAIN(a_large_frame, large, plain)
CHAIN(arguments_on_the_stack, with_stack_arguments, plain)
CHAIN(a_callback_through_libc, framed, through_qsort, frameless)
CHAIN(a_signal_handler, frameless, through_a_signal, plain)
#ifdef __SANITIZE_THREAD__ /* it puts a signal off while it handles another */
static void nested_signal_handlers(void **state)
{
    (void)state;
    skip();
}
#else
CHAIN(nested_signal_handlers, framed, through_a_signal, variable_size, through_a_signal, plain)
#endif
CHAIN(frames_that_follow_from_one_another, variable_size, framed, frameless, aligned,
      aligned_variable_size, through_qsort, frameless, variable_size, through_a_signal, frameless,
      aligned_variable_size, aligned, through_qsort, framed, with_stack_arguments, large,
      aligned_variable_size, plain)

/* Whatever was looked up before: addresses of the same places, of functions with many rows, of no code. */
static void cached_rules_are_those_of_the_tables(void **state)
{
    (void)state;
    static char no_code;
    void *const functions[] = {
        (void *)qsort,         (void *)snprintf, (void *)strtol, (void *)compare_walks,
        (void *)variable_size, (void *)malloc,   &no_code};
    enum { N = sizeof functions / sizeof *functions };
    static uint64_t address[N * 2048];
    uint64_t random = 5;
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        uint64_t start = (uint64_t)functions[i], end = start + 64;
        cfi_function(start, &start, &end);
        for (uint64_t at = start; at < end && at < start + 2048; at++)
            address[n++] = at;
    }
    struct unwind u = walk_unwinder((uint64_t)__builtin_frame_address(0));
    unwind_refresh(&u);
    for (int i = 0; i < 200000; i++) {
        uint64_t pc = address[unit_random(&random) % n];
        struct cfi_rule cached = unwind_rule(&u, pc);
        struct cfi_rule found;
        cfi_find(pc, &found);
        assert_int_equal(cached.cfa_kind, found.cfa_kind);
        assert_int_equal(cached.cfa_offset, found.cfa_offset);
        assert_int_equal(cached.bp_kind, found.bp_kind);
        assert_int_equal(cached.bp_offset, found.bp_offset);
        assert_int_equal(cached.bx_kind, found.bx_kind);
        assert_int_equal(cached.bx_offset, found.bx_offset);
        if (i == 100000) {
            unwind_forget_all();
            unwind_refresh(&u);
        }
    }
}

static void a_handler_on_another_stack(void **state)
{
    (void)state;
    static link_function *const links[] = {framed, through_a_signal, variable_size, compare_walks};
    static char other[1 << 18];
    stack_t alternate = {.ss_sp = other, .ss_size = sizeof other}, old;
    sigaltstack(&alternate, &old);
    struct sigaction action = {.sa_handler = chain_on_signal, .sa_flags = SA_ONSTACK};
    n_notes = 0;
    chain = links + 2;
    NOTE(false);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaltstack(&old, NULL);
    assert_true(ours.frames[0].cfa > (uint64_t)other &&
                ours.frames[0].cfa < (uint64_t)other + sizeof other);
    assert_int_equal(ours.end, UNWIND_COMPLETE);
    chain_check_notes();
    assert_null(chain_difference(&ours, &theirs));
}

static void *run_in_thread(void *links)
{
    chain_run(links);
    return NULL;
}

static void the_root_of_a_thread(void **state)
{
    (void)state;
    static link_function *links[] = {framed, frameless, compare_walks};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, links), 0);
    pthread_join(thread, NULL);
    assert_int_equal(ours.end, UNWIND_COMPLETE);
    chain_check_notes();
    assert_null(chain_difference(&ours, &theirs));
}

static void at_most_as_many_frames_as_asked(void **state)
{
    (void)state;
    struct native_frame frames[WALK_MAX + 1];
    struct walk all;
    ucontext_t here;
    getcontext(&here);
    walk_from(&here, &all);
    assert_int_equal(all.end, UNWIND_COMPLETE);
    for (size_t max = 0; max <= all.n + 1; max++) {
        struct unwind u = walk_unwinder((uint64_t)here.uc_mcontext.gregs[REG_RSP]);
        struct unwind_regs regs;
        enum unwind_end end;
        arch_regs_from_context(&regs, &here);
        memset(frames, 0xcc, sizeof frames);
        size_t n = unwind_walk(&u, &regs, frames, max, &end);
        assert_int_equal(n, max < all.n ? max : all.n);
        assert_int_equal(end, max < all.n ? UNWIND_TOO_DEEP : UNWIND_COMPLETE);
        assert_memory_equal(frames, all.frames, n * sizeof *frames);
        assert_int_equal(frames[n].cfa, 0xcccccccccccccccc);
    }
}

/* Without trust in the bounds, each load goes through the kernel, and the result is the same. */
static void guarded_loads_see_the_same(void **state)
{
    (void)state;
    struct walk direct, guarded;
    ucontext_t here;
    getcontext(&here);
    walk_from(&here, &direct);
    struct unwind u = walk_unwinder((uint64_t)here.uc_mcontext.gregs[REG_RSP]);
    u.stack_low = u.stack_high = 0;
    walk_with(&u, &here, &guarded);
    assert_true(u.guarded_loads >= direct.n - 1);
    assert_null(chain_difference(&direct, &guarded));
}

/* Single steps. */

static void r10_is_known_in_the_interrupted_frame_only(void **state)
{
    (void)state;
    ucontext_t here;
    getcontext(&here);
    struct unwind_regs regs;
    arch_regs_from_context(&regs, &here);
    regs.r10 = 1;
    struct unwind u = walk_unwinder(regs.sp);
    uint64_t cfa;
    enum cfa_kind kind;
    assert_true(unwind_step(&u, &regs, &cfa, &kind));
    assert_int_equal(regs.r10, 0);
    assert_int_equal(regs.sp, cfa);
    assert_int_equal(cfa, __builtin_dwarf_cfa());
    assert_int_equal(regs.pc, (uint64_t)__builtin_return_address(0) - 1);
}

/* What the code below ran into: its registers as the kernel saved them, and as they are found by
 * unwinding from the handler. */
static struct unwind_regs interrupted, unwound;

static void unwind_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    arch_regs_from_context(&interrupted, context);
    ucontext_t here;
    getcontext(&here);
    arch_regs_from_context(&unwound, &here);
    struct unwind u = walk_unwinder(unwound.sp);
    uint64_t cfa;
    enum cfa_kind kind = CFA_NONE;
    while (kind != CFA_SIGNAL && unwind_step(&u, &unwound, &cfa, &kind))
        ;
}

static void the_registers_of_an_interrupted_frame_are_all_restored(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = unwind_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("mov $0x1234, %%ebx\n mov $0x5678, %%r10d\n int3"
                     :
                     :
                     : "rbx", "r10", "memory");
    signal(SIGTRAP, SIG_DFL);
    assert_int_equal(interrupted.bx, 0x1234);
    assert_int_equal(interrupted.r10, 0x5678);
    assert_memory_equal(&unwound, &interrupted, sizeof unwound);
}

/* An epilogue that has popped rbp, while the rule still has where it was saved. */
extern const char epilogue_after_pop[];
__asm__(
    ".text\n.type in_epilogue, @function\n.hidden epilogue_after_pop\n.globl epilogue_after_pop\n"
    "in_epilogue: .cfi_startproc\n"
    "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
    "pop %rbp\n.cfi_def_cfa_offset 8\n"
    "epilogue_after_pop: ret\n.cfi_endproc\n.size in_epilogue, . - in_epilogue\n");

static void a_register_that_was_popped_is_not_read_again(void **state)
{
    (void)state;
    uint64_t stack[] = {0xbad, 0x1000, 0xbad}, cfa;
    struct unwind_regs regs = {
        .pc = (uint64_t)epilogue_after_pop, .sp = (uint64_t)&stack[1], .bp = 0x600d};
    struct unwind u = walk_unwinder((uint64_t)stack);
    enum cfa_kind kind;
    assert_true(unwind_step(&u, &regs, &cfa, &kind));
    assert_int_equal(cfa, (uint64_t)&stack[2]);
    assert_int_equal(regs.pc, 0xfff);
    assert_int_equal(regs.bp, 0x600d);
}

static int set_up_all(void **state)
{
    (void)state;
    return memread_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call),
        cmocka_unit_test(frame_pointers),
        cmocka_unit_test(no_frame_pointers),
        cmocka_unit_test(a_frame_of_variable_size),
        cmocka_unit_test(an_aligned_frame),
        cmocka_unit_test(an_aligned_frame_of_variable_size),
        cmocka_unit_test(a_large_frame),
        cmocka_unit_test(arguments_on_the_stack),
        cmocka_unit_test(a_callback_through_libc),
        cmocka_unit_test(a_signal_handler),
        cmocka_unit_test(nested_signal_handlers),
        cmocka_unit_test(frames_that_follow_from_one_another),
        cmocka_unit_test(cached_rules_are_those_of_the_tables),
        cmocka_unit_test(a_handler_on_another_stack),
        cmocka_unit_test(the_root_of_a_thread),
        cmocka_unit_test(at_most_as_many_frames_as_asked),
        cmocka_unit_test(guarded_loads_see_the_same),
        cmocka_unit_test(r10_is_known_in_the_interrupted_frame_only),
        cmocka_unit_test(the_registers_of_an_interrupted_frame_are_all_restored),
        cmocka_unit_test(a_register_that_was_popped_is_not_read_again),
    };
    return cmocka_run_group_tests_name("unwind", tests, set_up_all, NULL);
}
