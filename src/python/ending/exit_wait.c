/* exit_wait.c - the profiled process waits for the one that finishes its profile, and for a companion (companion.c), at its
 * very end.
 *
 * That one works while the interpreter is taken down, which takes a program with PyTorch a second or two; exit()
 * then waits for what is left.  A process that ends otherwise (_exit, a signal) leaves it behind, and the files
 * come a little later.
 *
 * Context: ordinary.  The wait itself runs without an interpreter.
 */
#include "ending.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "own_fd.h"

#define READ_IT "; `python -m pyhybrid report` reads it by its name\n"

static pid_t self, finisher;
static char *spool;
static uint64_t cpu_ns; /* of this process, when its end began */
static struct own_fd to_finisher = {.fd = -1};
#define FLOOR 64 /* what is left below it is the program's */

/* The profile is made, or why it is not has been reported: capture/finisher.py. */
static int is_known(int code)
{
    return code == 0 || code == 3 || code == 4 || code == 130;
}

/* With no more than an end of a socket, a process that ends otherwise reports nothing. */
static void send_cpu_time(void)
{
    uint64_t taken_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    if (own_fd_is(&to_finisher))
        (void)!send(to_finisher.fd, &taken_ns, sizeof taken_ns, MSG_NOSIGNAL | MSG_DONTWAIT);
    own_fd_close(&to_finisher);
}

static void wait_for_finisher(void)
{
    int status;
    pid_t ended;
    send_cpu_time();
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

int exit_wait_socket(void)
{
    int ends[2];
    own_fd_close(&to_finisher);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -errno;
    int error = own_fd_keep(&to_finisher, ends[0], FLOOR);
    if (error)
        close(ends[1]);
    return error ? error : ends[1];
}

void exit_wait_for(int child, const char *path)
{
    cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    spool = strdup(path);
    self = getpid();
    finisher = spool ? child : 0;
    late_signals_interrupt(finisher);
}
