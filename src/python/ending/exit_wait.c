#include "exit_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "companion.h"
#include "late_signals.h"

static pid_t self, finisher;
static char *spool;

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
    if (ended > 0 && WIFSIGNALED(status)) /* else reaped already: the program ignores SIGCHLD */
        dprintf(STDERR_FILENO, "pyhybrid: %s could not be finished: killed by signal %d\n", spool,
                WTERMSIG(status));
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
