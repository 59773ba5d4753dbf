#include "signals.h"

#include "session.h"

void signal_take(int number)
{
    struct sigaction action = {.sa_sigaction = handler_on_signal,
                               .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGPROF);
    sigaddset(&action.sa_mask, SIGTRAP);
    if (!signal_is_taken(number))
        sigaction(number, &action, signal_former(number));
}

bool signal_is_taken(int number)
{
    struct sigaction now;
    return !sigaction(number, NULL, &now) && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == handler_on_signal;
}

bool signal_is_free(int number)
{
    struct sigaction now;
    return signal_is_taken(number) || (!sigaction(number, NULL, &now) &&
                                       !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL);
}

void signal_discard(int number)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (signal_is_taken(number))
        sigaction(number, &ignore, NULL);
}

void signal_give_back(int number)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(number, &ignore, NULL);
    sigaction(number, signal_former(number), NULL);
}
