#include "exit_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late_signals.h"

static pid_t self, finisher;
static char *spool;

void exit_wait_now(void)
{
    int status;
    pid_t ended;
    if (!finisher || getpid() != self)
        return;
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
