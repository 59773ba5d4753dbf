/* previous_handler.c - what signals that we have taken do for the program.
 *
 * Context: async-signal-safe.
 */
#include "session.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"
#include "memread.h"

#define N_KEPT 16 /* one that is being read is not written to for so many changes */

static struct sigaction previous_prof, previous_spare, previous_trap[N_KEPT];
static _Atomic unsigned n_changes;
uint64_t previous_handler_watched_call;

struct sigaction *previous_handler(int number)
{
    if (number == SIGTRAP)
        return &previous_trap[atomic_load(&n_changes) % N_KEPT];
    return number == SIGPROF ? &previous_prof : &previous_spare;
}

void previous_handler_pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *old = previous_handler(number);
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, context);
    } else if (old->sa_handler == SIG_DFL) {
        sigaction(number, old, NULL);
        arch_syscall6(SYS_tgkill, arch_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0),
                      arch_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0), number, 0, 0, 0);
    } else if (old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
    }
}

static bool is_handler(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

bool previous_handler_take_call(ucontext_t *context)
{
    struct unwind_regs regs;
    struct sigaction wanted, *now = previous_handler(SIGTRAP);
    uint64_t new = arch_argument(context, 1), old = arch_argument(context, 2);
    arch_regs_from_context(&regs, context);
    if (regs.pc != previous_handler_watched_call || (int)arch_argument(context, 0) != SIGTRAP)
        return false;
    if (new && !memread(&wanted, new, sizeof wanted))
        return false; /* the call will fail by itself */
    if (old)
        memcpy((void *)old, now, sizeof *now);
    arch_clear_arguments(context);
    if (!new)
        return false;
    unsigned next = atomic_load(&n_changes) + 1;
    previous_trap[next % N_KEPT] = wanted;
    atomic_store(&n_changes, next);
    return is_handler(&wanted);
}
