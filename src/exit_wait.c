#include "exit_wait.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t self, finisher;
static char *spool;
static sigset_t handled;

static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0) /* a process sent it; a terminal sends it to the finisher, too */
        kill(finisher, number);
}

static void disarm_signals(void)
{
    struct sigaction now, interrupt = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&handled, i) == 1 && !sigaction(i, NULL, &now) && now.sa_handler == SIG_DFL)
            signal(i, SIG_IGN);
    if (sigismember(&handled, SIGINT) == 1)
        sigaction(SIGINT, &interrupt, NULL);
}

static void wait_for_it(void)
{
    int status;
    pid_t ended;
    if (!finisher || getpid() != self)
        return;
    disarm_signals();
    do
        ended = waitpid(finisher, &status, 0);
    while (ended < 0 && errno == EINTR);
    signal(SIGINT, SIG_IGN); /* the finisher's number is free */
    finisher = 0;
    if (ended > 0 && WIFSIGNALED(status)) /* else reaped already: the program ignores SIGCHLD */
        dprintf(STDERR_FILENO, "pyhybrid: %s could not be finished: killed by signal %d\n", spool,
                WTERMSIG(status));
}

int exit_wait_prepare(void)
{
    static int registered;
    if (!registered && atexit(wait_for_it))
        return -ENOMEM;
    registered = 1;
    return 0;
}

void exit_wait_for(int child, const char *path)
{
    struct sigaction now;
    sigemptyset(&handled);
    for (int i = 1; i < NSIG; i++)
        if (!sigaction(i, NULL, &now) && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)
            sigaddset(&handled, i);
    spool = strdup(path);
    self = getpid();
    finisher = spool ? child : 0;
}
