/* task_list.h - the threads of this process by the kernel's list, and whether it may have changed.
 *
 * Listing 64 threads takes 0.2 ms.  In 2 µs two numbers show that the threads are still the same: how many there are
 * (the folder's links: fs/proc/base.c, proc_task_getattr), and the number that the newest thread of the pid
 * namespace got (kernel/pid_namespace.c, ns_last_pid; CONFIG_CHECKPOINT_RESTORE), which differs where one thread
 * began while another ended.  Where the kernel does not provide the second, the list may always have changed.
 *
 * A thread has its number before it is counted and listed (kernel/fork.c, copy_process), so only a number that the
 * read before saw, too, is taken for that of a thread in the list.  Still, list them once in a while: a thread that
 * is being made may have to wait for longer.
 *
 * /proc may be that of an outer pid namespace (`unshare -pf` without `--mount-proc`): then it lists threads by other
 * numbers than gettid's, which their status has (NSpid).  Or there is none, or one that does not know this process:
 * then nothing is listed.
 *
 * Context: one thread at a time, or before and after it; not async-signal-safe.
 */
#ifndef PYH_TASK_LIST_H
#define PYH_TASK_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "own_fd.h"

struct task_count {
    uint64_t threads, newest;
};

struct task_list {
    struct own_fd folder, last_pid; /* /proc/self/task, /proc/sys/kernel/ns_last_pid */
    int fd_floor;  /* of the descriptors, which the program may close: they are opened again */
    bool has_last; /* the kernel provides ns_last_pid */
    bool absent;   /* /proc/self is not there */
    bool foreign;  /* the list has other numbers than gettid's */
    bool known;    /* `count` is that of the threads that were listed */
    struct task_count count; /* before the last read */
};

/* Returns 0 or -errno; 0 also where the list is absent.  task_list_close is allowed after a failure, too, and where
 * both descriptors are -1. */
int task_list_open(struct task_list *l, int fd_floor);
void task_list_close(struct task_list *l);

/* Calls each(context, tid, listed) for every thread; `listed` is its number in /proc.  Returns false if some may be
 * missing. */
typedef void task_list_each(void *context, pid_t tid, pid_t listed);
bool task_list_read(struct task_list *l, task_list_each *each, void *context);

/* Returns the number in /proc of a thread that was not listed, or 0 if it is not known. */
pid_t task_list_number(const struct task_list *l, pid_t tid);

/* Returns whether a thread may have begun or ended since task_list_read began. */
bool task_list_changed(struct task_list *l);

#endif
