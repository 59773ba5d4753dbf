/* task_list.c - which threads there are (see task_list.h). */
#include "task_list.h"

#include <stdlib.h>
#include <sys/syscall.h>

struct dirent64_head { /* man 2 getdents64 */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

static int open_folder(struct task_list *l)
{
    return own_fd_keep(&l->folder, open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       l->fd_floor);
}

static int open_last_pid(struct task_list *l)
{
    return own_fd_keep(&l->last_pid, open("/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC),
                       l->fd_floor);
}

int task_list_open(struct task_list *l, int fd_floor)
{
    *l = (struct task_list){.last_pid.fd = -1, .fd_floor = fd_floor};
    int error = open_folder(l);
    l->has_last = !error && !open_last_pid(l);
    return error;
}

void task_list_close(struct task_list *l)
{
    own_fd_close(&l->folder);
    own_fd_close(&l->last_pid);
}

/* False: they cannot be had. */
static bool count(struct task_list *l, struct task_count *c)
{
    char text[24];
    struct stat st;
    if (!own_fd_is(&l->last_pid) || fstat(l->folder.fd, &st))
        return false;
    ssize_t n = pread(l->last_pid.fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    if (*text < '0' || *text > '9') /* also -1 */
        return false;
    *c = (struct task_count){st.st_nlink, strtoull(text, NULL, 10)};
    return true;
}

static bool equal(struct task_count a, struct task_count b)
{
    return a.threads == b.threads && a.newest == b.newest;
}

bool task_list_read(struct task_list *l, void (*each)(void *context, pid_t tid), void *context)
{
    char buffer[2048];
    struct task_count before = {0}, after;
    uint64_t links = 2; /* a folder's own */
    long bytes;
    l->known = false;
    if (!own_fd_is(&l->folder) && open_folder(l))
        return false;
    if (l->has_last && !own_fd_is(&l->last_pid))
        open_last_pid(l);
    bool told = count(l, &before) && before.newest == l->count.newest;
    lseek(l->folder.fd, 0, SEEK_SET);
    while ((bytes = syscall(SYS_getdents64, l->folder.fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < bytes;) {
            const struct dirent64_head *d = (const void *)(buffer + at);
            pid_t tid = atoi(d->name);
            at += d->length;
            links += tid != 0;
            if (tid)
                each(context, tid);
        }
    l->known =
        !bytes && told && links == before.threads && count(l, &after) && equal(before, after);
    l->count = before;
    return !bytes;
}

bool task_list_changed(struct task_list *l)
{
    struct task_count now;
    return !l->known || !own_fd_is(&l->folder) || !count(l, &now) || !equal(now, l->count);
}
