/* inject.h - borrows one thread of another process, by ptrace, for a moment.
 *
 * The thread is stopped (the others go on), runs a few system calls and one function of `injected.h`, and gets all of its
 * registers, its signal mask and the system call back in which it slept.  No lock is taken that it could have: see
 * inject_by.
 *
 * Context: a process of ours, one thread of it.
 */
#ifndef PYH_INJECT_H
#define PYH_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injected.h"

enum inject_result {
    INJECT_DONE,
    INJECT_GONE,    /* no such thread */
    INJECT_DENIED,  /* the kernel refuses it: *error */
    INJECT_TRACED,  /* another tracer has it */
    INJECT_STOPPED, /* it is stopped (SIGSTOP) */
    INJECT_UNSAFE,  /* it runs, or may have a lock: try another one, or later */
    INJECT_TIMEOUT, /* it did not stop in time: it is in the kernel */
    INJECT_FAILED,  /* it could not: *error */
};

/* Which thread may be borrowed, and what for. */
enum inject_by {
    /* It sleeps in a system call where the C library has no lock: it makes a thread. */
    INJECT_SLEEPER,
    /* It is the main thread, wherever it is: it makes a pending call.  The one lock that this takes is `lock`. */
    INJECT_PENDING,
};

struct inject_request {
    enum inject_by by;
    struct injected in;                  /* but for what is its mapping's */
    uint64_t add_pending;                /* Py_AddPendingCall */
    uint64_t syscall_at;                 /* of an instruction `syscall` */
    uint64_t lock, lock_free, lock_mask; /* a word, what it is while nobody has it, by these bits */
    uint64_t gil_start, gil_end;         /* who sleeps on a futex there waits for the GIL */
};

enum inject_result inject(pid_t pid, pid_t tid, const struct inject_request *request, int *error,
                          uint64_t *stopped_ns);

/* Stops a thread, or lets it go on; the same results. */
enum inject_result thread_stop(pid_t tid, int *error);
void thread_release(pid_t tid);

#endif
