#include "exit_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "companion.h"
#include "late_signals.h"

#define READ_IT "; `python -m pyhybrid report` reads it by its name\n"

static pid_t self, finisher;
static char *spool;

/* The profile is made, or why it is not has been said: capture/finisher.py. */
static int is_known(int code)
{
    return code == 0 || code == 3 || code == 4 || code == 130;
}

static void wait_for_finisher(void)
{
    int status;
    pid_t ended;
    late_signals_hold_again();
    do
        ended = waitpid(finisher, &status, 0);
    while (ended < 0 && errno == EINTR);
    late_signals_interrupt(0); /* the finisher's number is free */
    finisher = 0;
    if (ended < 0) /* reaped already: the program ignores SIGCHLD */
        return;
    if (WIFSIGNALED(status))
        dprintf(STDERR_FILENO, "pyhybrid: %s could not be finished: killed by signal %d" READ_IT,
                spool, WTERMSIG(status));
    else if (!is_known(WEXITSTATUS(status)))
        dprintf(STDERR_FILENO,
                "pyhybrid: %s could not be finished: exit code %d of the process that makes the "
                "profile" READ_IT,
                spool, WEXITSTATUS(status));
}

void exit_wait_now(void)
{
    if (finisher && getpid() == self)
        wait_for_finisher();
    companion_wait();
}

int exit_wait_prepare(void)
{
    static int registered;
    if (!registered && atexit(exit_wait_now))
        return -ENOMEM;
    registered = 1;
    return 0;
}

void exit_wait_for(int child, const char *path)
{
    spool = strdup(path);
    self = getpid();
    finisher = spool ? child : 0;
    late_signals_interrupt(finisher);
}
