/* Every instruction of a chain of calls, one after another: prologues and epilogues, calls of libc
 * through the PLT, the loader's resolver.  Not with ThreadSanitizer: its runtime must not be
 * interrupted by code that it watches. */
#include "chain.h"

#include <signal.h>
#include <stdlib.h>

#include "memread.h"
#include "step_through.h"

#ifdef __SANITIZE_THREAD__

static void every_instruction(void **state)
{
    (void)state;
    skip();
}

#else

static struct {
    uint64_t steps, wrong, wrong_pc, outer_cfa, kinds[CFA_END + 1];
    const char *what;
} stepping;

static const char *wrong_with_step(ucontext_t *context)
{
    walk_from(context, &ours);
    if (ours.end != UNWIND_COMPLETE)
        return "the root is not reached";
    size_t i = 0;
    while (i < ours.n && ours.frames[i].cfa != stepping.outer_cfa)
        i++;
    if (i == ours.n)
        return "the test's own frame is not met";
#ifdef HAVE_LIBUNWIND
    theirs.n = pyh_unwind_backend(context, theirs.frames, WALK_MAX, &theirs.end);
    return chain_difference(&ours, &theirs);
#else
    return NULL;
#endif
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    uint64_t pc = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    const char *what = wrong_with_step(context);
    stepping.steps++;
    stepping.kinds[walk_kind(pc)]++;
    if (what && !stepping.wrong++) {
        stepping.what = what;
        stepping.wrong_pc = pc;
        walk_print("ours", &ours);
        walk_print("libunwind", &theirs);
    }
}

/* Not called before: the PLT's entries are not bound yet. */
__attribute__((noipa)) static void through_the_plt(void)
{
    NOTE(false);
    USE(a64l("pyh"));
    USE(l64a(1234));
    NEXT();
}

__attribute__((noipa)) static void nothing(void)
{
    NOTE(false);
}

static void run(void *links)
{
    chain_run((link_function *const *)links);
}

static void every_instruction(void **state)
{
    (void)state;
    static link_function *const links[] = {plain,           framed,
                                           frameless,       variable_size,
                                           aligned,         through_qsort,
                                           through_the_plt, aligned_variable_size,
                                           large,           with_stack_arguments,
                                           nothing};
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    memset(&stepping, 0, sizeof stepping);
    stepping.outer_cfa = (uint64_t)__builtin_dwarf_cfa();
    sigaction(SIGTRAP, &action, &old);
    step_through(run, (void *)links);
    sigaction(SIGTRAP, &old, NULL);
    if (stepping.wrong)
        fail_msg("%lu of %lu steps, first at %#lx: %s", (unsigned long)stepping.wrong,
                 (unsigned long)stepping.steps, (unsigned long)stepping.wrong_pc, stepping.what);
    assert_int_equal(n_notes, sizeof links / sizeof *links + 2);
    assert_in_range(stepping.steps, 500, 1000000);
    static const enum cfa_kind met[] = {CFA_RSP, CFA_RBP, CFA_RBX, CFA_R10, CFA_RBP_DEREF, CFA_PLT};
    for (size_t i = 0; i < sizeof met / sizeof *met; i++)
        if (!stepping.kinds[met[i]])
            fail_msg("no step met rule %d", met[i]);
    assert_int_equal(stepping.kinds[CFA_NONE], 0);
}

#endif

static int set_up_all(void **state)
{
    (void)state;
    return memread_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction),
    };
    return cmocka_run_group_tests_name("unwind steps", tests, set_up_all, NULL);
}
