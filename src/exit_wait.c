#include "exit_wait.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INTERRUPTED 130 /* 128 + SIGINT, which it exits with */

static pid_t self, finisher;
static char *spool;

static void wait_for_it(void)
{
    int status;
    pid_t ended;
    if (!finisher || getpid() != self)
        return;
    signal(SIGINT, SIG_IGN); /* of a terminal: the finisher has got it, too */
    do
        ended = waitpid(finisher, &status, 0);
    while (ended < 0 && errno == EINTR);
    finisher = 0;
    if (ended < 0) /* the program ignores SIGCHLD: the kernel reaped it */
        return;
    if (WIFSIGNALED(status))
        dprintf(STDERR_FILENO, "pyhybrid: %s could not be finished: killed by signal %d\n", spool,
                WTERMSIG(status));
    else if (WEXITSTATUS(status) == INTERRUPTED)
        dprintf(STDERR_FILENO, "pyhybrid: interrupted; `pyhybrid report %s` still reads it\n",
                spool);
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
    spool = strdup(path);
    self = getpid();
    finisher = spool ? child : 0;
}
