/* late_signals.c - signals of the program that come while we keep it from ending.
 *
 * What Python code handled, the interpreter sets to its default when it is taken down, which is mostly death.
 * Without us a program with a timer still running is gone by then, or nearly; with us it has its profile to
 * finish.  So such signals are ignored while we work, for as long again and a second afterwards (the interpreter is
 * being taken down, and without us might have been when the signal came), and while exit() waits for the files.
 * Should the interpreter's end take longer they do what they would do: whoever waits for that can end it.
 *
 * Context: ordinary, one thread at a time; signals come to any thread.
 */
#include "ending.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#define TEARDOWN_NS                                                                                \
    1000000000ull /* what we add to the interpreter's takes milliseconds, on a busy machine more */

static sigset_t held;
static uint64_t held_from_ns;
static _Atomic uint64_t held_until_ns;
static _Atomic pid_t interrupts;
static _Atomic bool interrupted;

static void on_late_signal(int number, siginfo_t *info, void *context)
{
    int error = errno;
    pid_t other = atomic_load(&interrupts);
    (void)context;
    if (clock_now_ns() >= atomic_load(&held_until_ns)) {
        signal(number, SIG_DFL);
        raise(number); /* when this returns */
    } else if (number == SIGINT && !other) {
        atomic_store(&interrupted, true);
    } else if (number == SIGINT && info->si_code <= 0) { /* a terminal sends it to that one, too */
        kill(other, SIGINT);
    }
    errno = error;
}

void late_signal_hold(int number)
{
    struct sigaction action = {.sa_sigaction = on_late_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (!held_from_ns)
        held_from_ns = clock_now_ns();
    atomic_store(&held_until_ns, UINT64_MAX);
    sigaddset(&held, number);
    sigaction(number, &action, NULL);
}

void late_signals_release(void)
{
    uint64_t now = clock_now_ns();
    if (held_from_ns)
        atomic_store(&held_until_ns, now + (now - held_from_ns) + TEARDOWN_NS);
}

void late_signals_hold_again(void)
{
    struct sigaction now;
    atomic_store(&held_until_ns, UINT64_MAX);
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&held, i) == 1 && !sigaction(i, NULL, &now) && now.sa_handler == SIG_DFL)
            late_signal_hold(i);
}

void late_signals_interrupt(pid_t pid)
{
    atomic_store(&interrupts, pid);
    if (pid && atomic_exchange(&interrupted, false))
        kill(pid, SIGINT);
}
