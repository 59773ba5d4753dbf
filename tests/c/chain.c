#include "chain.h"

#include <signal.h>
#include <stdlib.h>

struct note notes[32];
size_t n_notes;
struct walk ours, theirs;
link_function *const *chain;

static volatile size_t two = 2;

LINK plain(void)
{
    NOTE(false);
    NEXT();
}

__attribute__((optimize("no-omit-frame-pointer"))) LINK framed(void)
{
    NOTE(false);
    NEXT();
}

__attribute__((optimize("omit-frame-pointer"))) LINK frameless(void)
{
    NOTE(false);
    NEXT();
}

LINK variable_size(void)
{
    char p[100 * two];
    USE(p);
    NOTE(false);
    NEXT();
}

LINK aligned(void)
{
    char line[64] __attribute__((aligned(64)));
    USE(line);
    NOTE(false);
    NEXT();
}

/* Realigned and of variable size: the CFA is kept in memory (DRAP).  Not even the compiler's builtin
 * knows it. */
LINK aligned_variable_size(void)
{
    char line[32] __attribute__((aligned(32))), p[50 * two];
    USE(line);
    USE(p);
    NOTE_WITH(0, false);
    NEXT();
}

LINK large(void)
{
    char buffer[70000];
    USE(buffer);
    NOTE(false);
    NEXT();
}

__attribute__((noipa)) static long many_arguments(long a, long b, long c, long d, long e, long f,
                                                  long g, long h)
{
    NOTE(false);
    long kept = a * h + b * g + c * f + d * e;
    NEXT();
    return kept + a + b + c + d + e + f + g + h;
}

LINK with_stack_arguments(void)
{
    static volatile long sink;
    NOTE(false);
    sink = many_arguments(1, 2, 3, 4, 5, 6, 7, sink);
}

static bool first_comparison; /* a sanitizer's qsort() compares more often than one expects */

static int compare(const void *a, const void *b)
{
    (void)a;
    (void)b;
    if (first_comparison) {
        first_comparison = false;
        NOTE(true);
        NEXT();
    }
    return 0;
}

LINK through_qsort(void)
{
    int pair[2] = {1, 2};
    NOTE(false);
    first_comparison = true;
    qsort(pair, two, sizeof *pair, compare);
    NO_TAIL_CALL();
}

void chain_on_signal(int signal)
{
    (void)signal;
    NOTE(true);
    NEXT();
}

LINK through_a_signal(void)
{
    NOTE(false);
    struct sigaction action = {.sa_handler = chain_on_signal, .sa_flags = SA_NODEFER};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    NO_TAIL_CALL();
}

LINK compare_walks(void)
{
    ucontext_t here;
    NOTE(false);
    getcontext(&here);
    walk_from(&here, &ours);
#ifdef HAVE_LIBUNWIND
    theirs.n = pyh_unwind_backend(&here, theirs.frames, WALK_MAX, &theirs.end);
#else
    theirs = ours;
#endif
    NO_TAIL_CALL();
}

const char *chain_difference(const struct walk *a, const struct walk *b)
{
    if (a->n != b->n)
        return "another number of frames";
    if (a->end != b->end)
        return "another end";
    for (size_t i = 0; i < a->n; i++) {
        if (a->frames[i].pc != b->frames[i].pc)
            return "another pc";
        if (a->frames[i].cfa != b->frames[i].cfa && walk_kind(a->frames[i].pc) != CFA_SIGNAL)
            return "another CFA";
        if (a->frames[i].flags)
            return "a flag";
    }
    return NULL;
}

/* Where a frame stands to which is returned: in the call, or at the begin of a signal's trampoline. */
static uint64_t place_of(uint64_t return_address)
{
    return return_address - (walk_kind(return_address) != CFA_SIGNAL);
}

void chain_check_notes(void)
{
    size_t at = 0;
    for (size_t i = n_notes; i-- > 0;) {
        while (i + 1 < n_notes && notes[i + 1].by_other_code && at + 1 < ours.n &&
               ours.frames[at + 1].pc != place_of(notes[i].return_address))
            at++;
        if (at + 1 >= ours.n || (notes[i].cfa && ours.frames[at].cfa != notes[i].cfa) ||
            ours.frames[at + 1].pc != place_of(notes[i].return_address)) {
            walk_print("ours", &ours);
            fail_msg("link %zu: its CFA is %#lx, it returns to %#lx", i,
                     (unsigned long)notes[i].cfa, (unsigned long)notes[i].return_address);
        }
        at++;
    }
}

void chain_run(link_function *const *links)
{
    n_notes = 0;
    chain = links + 1;
    links[0]();
    NO_TAIL_CALL();
}
