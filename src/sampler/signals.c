/* signals.c - the signals that the sampler takes, and what they did before.
 *
 * Context: by one thread at a time.
 */
#include "session.h"

#include <string.h>

/* As the kernel has it: its calls are not seen by our own guard (trap_guard.h).  Source: struct sigaction of
 * include/linux/signal_types.h. */
struct disposition {
    uint64_t handler, flags, restorer, mask;
};

static int exchange(int number, const struct disposition *new, struct disposition *old)
{
    return (int)syscall(SYS_rt_sigaction, number, new, old, sizeof new->mask);
}

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

void signal_take(int number)
{
    struct sigaction action = {.sa_sigaction = handler_on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART};
    /* No handler of the program may jump out of ours; its faults stay its own.  Not sigfillset, which
     * leaves out the signal by which glibc cancels a thread: it would unwind ours, too. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&action.sa_mask, faults[i]);
    if (signal_is_taken(number))
        return;
    sigaction(number, NULL, previous_handler(number)); /* known before the first one comes */
    sigaction(number, &action, NULL);
}

bool signal_is_taken(int number)
{
    struct disposition now;
    return !exchange(number, NULL, &now) && now.flags & SA_SIGINFO &&
           now.handler == (uint64_t)handler_on_signal;
}

bool signal_is_free(int number)
{
    struct sigaction now = *previous_handler(number);
    return (signal_is_taken(number) || !sigaction(number, NULL, &now)) &&
           !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

void signal_drop_pending(int number)
{
    struct disposition ours, ignore = {.handler = (uint64_t)SIG_IGN};
    if (!signal_is_taken(number))
        return;
    exchange(number, &ignore, &ours);
    exchange(number, &ours, NULL);
}

void signal_give_back(int number)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(number, &ignore, NULL);
    sigaction(number, previous_handler(number), NULL);
}
