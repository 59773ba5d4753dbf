/* companion.c - processes beside this one that outlast it, and see by a socket that it has ended, whichever way.
 *
 * The companion is waited for at the very end.  It writes its messages to the socket: a `+` when it has begun what it is
 * for, then, where it failed, a line for the user.
 *
 * The watcher makes the files where this process is killed: a shell that becomes the finishing process, unless a line
 * has come by then.
 *
 * Context: ordinary; companion_wait without an interpreter, too.
 */
#include "ending.h"

#include <errno.h>
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

static struct own_fd watcher = {.fd = -1};

int watcher_start(char *const argv[], char *const environment[], int lock)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return -errno;
    int error = own_fd_keep(&watcher, ends[1], FLOOR); /* where that is refused, nobody waits */
    if (!error)
        error = own_process_orphan(argv[0], argv, environment, lock, ends[0], true);
    if (error)
        own_fd_close(&watcher);
    close(ends[0]);
    return error;
}

void watcher_dismiss(void)
{
    if (own_fd_is(&watcher)) /* nobody need be there: no SIGPIPE */
        send(watcher.fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    own_fd_close(&watcher);
}

void watcher_forget(void)
{
    own_fd_close(&watcher);
}
