/* own_fd.h - a descriptor of ours with a high number, in a process whose program may close it and use
 * the number itself.
 *
 * Context: any thread; not async-signal-safe.
 */
#ifndef PYH_OWN_FD_H
#define PYH_OWN_FD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

struct own_fd {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Duplicates `fd`, which the caller keeps, under a number from `floor` on.  Returns 0 or -errno. */
static inline int own_fd_duplicate(struct own_fd *o, int fd, int floor)
{
    struct stat st;
    o->fd = fcntl(fd, F_DUPFD_CLOEXEC, floor);
    if (o->fd < 0 || fstat(o->fd, &st))
        return -errno;
    o->device = st.st_dev;
    o->inode = st.st_ino;
    return 0;
}

/* Does the same with `low`, which it closes; `low` may be -1, with errno. */
static inline int own_fd_keep(struct own_fd *o, int low, int floor)
{
    o->fd = -1;
    if (low < 0)
        return -errno;
    int error = own_fd_duplicate(o, low, floor);
    close(low);
    return error;
}

static inline bool own_fd_is(const struct own_fd *o)
{
    struct stat st;
    return o->fd >= 0 && !fstat(o->fd, &st) && st.st_dev == o->device && st.st_ino == o->inode;
}

static inline void own_fd_close(struct own_fd *o)
{
    if (own_fd_is(o))
        close(o->fd);
    o->fd = -1;
}

#endif
