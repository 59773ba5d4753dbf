/* companion.c - a process beside this one that outlasts it, for which it waits at its very end.
 *
 * A socket is between the two.  That process sees its end when this one has come to its own, whichever way, and writes
 * its messages there: a `+` when it has begun what it is for, then, where it failed, a line for the user.
 *
 * Context: ordinary; companion_wait without an interpreter, too.
 */
#include "ending.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "own_fd.h"

#define FLOOR 64 /* what is left below it is the program's */

static struct own_fd own = {.fd = -1};
static pid_t self;
static char message[1024];
static bool ended;

int companion_keep(int socket)
{
    *message = 0;
    ended = false;
    self = getpid();
    return own_fd_keep(&own, socket, FLOOR);
}

/* False: it has ended, or nothing has come. */
static bool receive(int timeout_ms)
{
    struct pollfd p = {.fd = own.fd, .events = POLLIN};
    size_t n = strlen(message);
    char rest[256];
    if (ended || poll(&p, 1, timeout_ms) <= 0)
        return false;
    bool has_room = n + 1 < sizeof message;
    ssize_t got = recv(own.fd, has_room ? message + n : rest,
                       has_room ? sizeof message - 1 - n : sizeof rest, MSG_DONTWAIT);
    ended = !got || (got < 0 && errno != EINTR && errno != EAGAIN);
    if (has_room && got > 0)
        message[n + (size_t)got] = 0;
    return !ended;
}

static bool is_here(void)
{
    return getpid() == self && own_fd_is(&own);
}

const char *companion_message(int timeout_ms, bool *has_ended)
{
    if (!is_here())
        ended = true;
    else
        receive(timeout_ms);
    *has_ended = ended;
    return message;
}

void companion_wait(void)
{
    if (!is_here())
        return;
    shutdown(own.fd, SHUT_WR);
    while (!ended)
        receive(-1);
    const char *line = message + (*message == '+');
    if (*line)
        dprintf(STDERR_FILENO, "pyhybrid: %s\n", line);
    own_fd_close(&own);
}

void companion_drop(void)
{
    if (is_here())
        own_fd_close(&own);
}
