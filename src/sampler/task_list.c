/* task_list.c - which threads there are (see task_list.h). */
#include "task_list.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

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
    char self[16] = "";
    int error = open_folder(l);
    l->absent = error == -ENOENT;
    l->foreign = readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) != getpid();
    l->has_last = !error && !open_last_pid(l);
    return l->absent ? 0 : error;
}

pid_t task_list_number(const struct task_list *l, pid_t tid)
{
    return l->foreign ? 0 : tid;
}

/* The last one of NSpid (man 5 proc) is the innermost namespace's.  0: the thread has ended. */
static pid_t own_number(struct task_list *l, pid_t listed)
{
    char path[32], text[4096];
    snprintf(path, sizeof path, "%d/status", listed);
    int fd = openat(l->folder.fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *line = strstr(text, "\nNSpid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return 0;
    *end = 0;
    return atoi(strrchr(line, '\t') + 1);
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

bool task_list_read(struct task_list *l, task_list_each *each, void *context)
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
    bool is_counted = count(l, &before) && before.newest == l->count.newest;
    lseek(l->folder.fd, 0, SEEK_SET);
    while ((bytes = syscall(SYS_getdents64, l->folder.fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < bytes;) {
            const struct dirent64 *d = (const void *)(buffer + at);
            pid_t listed = atoi(d->d_name);
            pid_t tid = listed && l->foreign ? own_number(l, listed) : listed;
            at += d->d_reclen;
            links += listed != 0;
            if (tid)
                each(context, tid, listed);
        }
    l->known =
        !bytes && is_counted && links == before.threads && count(l, &after) && equal(before, after);
    l->count = before;
    return !bytes;
}

bool task_list_changed(struct task_list *l)
{
    struct task_count now;
    return !l->known || !own_fd_is(&l->folder) || !count(l, &now) || !equal(now, l->count);
}
