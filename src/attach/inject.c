/* Sources: ptrace(2), Linux arch/x86/kernel/signal.c (how a system call is restarted), fs/eventpoll.c. */
#include "inject.h"

#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* Linux 5.11: older headers have no name for it */
#endif

#define STOP_NS 200000000ull /* for a thread to stop: one that waits for a disk does not */
#define FOR_EVER (~0ull >> 2)
#define CODE_BYTES 4096
#define MAPPING_BYTES                                                                              \
    (CODE_BYTES + 65536) /* code, then `struct injected` and, from the end down, a stack */
#define XSTATE_MAX 65536
/* Not what the kernel forces on a thread: our own stops are of that kind. */
#ifndef TRAP_PERF
#define TRAP_PERF 6 /* C libraries before 2.36 */
#endif

#define FORCED                                                                                     \
    (1ull << (SIGTRAP - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGILL - 1) | \
     1ull << (SIGFPE - 1))
/* Errors of the kernel's own, with which a system call is restarted. */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

/* int3 behind the call: the call returns there. */
static const unsigned char trampoline[] = {0xff, 0xd0, 0xcc}; /* call *%rax; int3 */
#define TRAP_AT sizeof trampoline

struct borrowed {
    pid_t pid, tid;
    struct user_regs_struct regs;
    uint64_t mask;
    size_t xstate_size;
    int signal; /* one that came meanwhile, forced on it: it gets it in the end */
    char xstate[XSTATE_MAX];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Waits for a stop.  Returns 0, ESRCH or ETIMEDOUT. */
static int await_stop(pid_t tid, uint64_t most_ns, int *status)
{
    for (uint64_t until = now_ns() + most_ns;;) {
        pid_t got = waitpid(tid, status, __WALL | WNOHANG);
        if (got == tid)
            return WIFSTOPPED(*status) ? 0 : ESRCH;
        if (got < 0 && errno != EINTR)
            return ESRCH;
        if (now_ns() > until)
            return ETIMEDOUT;
        nap();
    }
}

enum inject_result thread_stop(pid_t tid, int *error)
{
    int status;
    *error = 0;
    if (ptrace(PTRACE_SEIZE, tid, NULL, 0L)) {
        *error = errno;
        if (errno == ESRCH)
            return INJECT_GONE;
        char name[64], line[128];
        bool traced = false;
        snprintf(name, sizeof name, "/proc/%d/status", tid);
        FILE *file = fopen(name, "re");
        for (int tracer; file && fgets(line, sizeof line, file);)
            traced = traced || (sscanf(line, "TracerPid: %d", &tracer) == 1 && tracer);
        if (file)
            fclose(file);
        return traced ? INJECT_TRACED : INJECT_DENIED;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
        return INJECT_GONE;
    int r = await_stop(tid, STOP_NS, &status);
    if (r == ESRCH)
        return INJECT_GONE;
    if (r) {
        /* It cannot be let go of before it stops: it does so at the end of what it is in the kernel for. */
        *error = r;
        return INJECT_TIMEOUT;
    }
    if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
        return INJECT_STOPPED;
    }
    if (status >> 16 != PTRACE_EVENT_STOP) { /* a signal came first, and is not to get lost */
        ptrace(PTRACE_DETACH, tid, NULL, (long)WSTOPSIG(status));
        return INJECT_UNSAFE;
    }
    return INJECT_DONE;
}

static bool reads(pid_t pid, uint64_t address, void *to, size_t n)
{
    struct iovec here = {to, n}, there = {(void *)address, n};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

static bool writes(pid_t pid, uint64_t address, const void *from, size_t n)
{
    struct iovec here = {(void *)from, n}, there = {(void *)address, n};
    return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

/* Does it sleep where the C library has no lock?  What waits for one of its locks sleeps by FUTEX_WAIT, semaphores and
 * condition variables by FUTEX_WAIT_BITSET. */
static bool sleeps(const struct user_regs_struct *r, const struct inject_request *q)
{
    switch (r->orig_rax) {
    case SYS_futex:
        return (r->rsi & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
               (r->rdi < q->gil_start || r->rdi >= q->gil_end);
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_pause:
    case SYS_rt_sigtimedwait:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_read:
        return true;
    }
    return false;
}

static bool was_interrupted(const struct user_regs_struct *r)
{
    long result = -(long)r->rax;
    return (long)r->orig_rax >= 0 &&
           (result == ERESTARTSYS || result == ERESTARTNOINTR || result == ERESTARTNOHAND ||
            result == ERESTART_RESTARTBLOCK || result == EINTR);
}

static bool takes_state(struct borrowed *b)
{
    struct iovec regs = {&b->regs, sizeof b->regs}, xstate = {b->xstate, sizeof b->xstate};
    if (ptrace(PTRACE_GETREGSET, b->tid, NT_PRSTATUS, &regs) ||
        ptrace(PTRACE_GETREGSET, b->tid, NT_X86_XSTATE, &xstate) ||
        ptrace(PTRACE_GETSIGMASK, b->tid, sizeof b->mask, &b->mask))
        return false;
    b->xstate_size = xstate.iov_len;
    return true;
}

/* Does a signal wait for it, or for any thread?  Then EINTR is what its handler's thread waits for. */
static bool has_signal(pid_t tid)
{
    siginfo_t info;
    struct __ptrace_peeksiginfo_args own = {.nr = 1},
                                     shared = {.flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
    return ptrace(PTRACE_PEEKSIGINFO, tid, &own, &info) > 0 ||
           ptrace(PTRACE_PEEKSIGINFO, tid, &shared, &info) > 0;
}

/* The system call in which it slept goes on by the kernel's own way: its number and result are as they were.  Of some
 * the kernel makes EINTR of any stop (signal(7)): these are called again, but where they have a timeout.  Then their
 * caller, who knows how long it has waited, does that. */
static void calls_again(pid_t tid, struct user_regs_struct *r)
{
    bool again = false;
    switch (r->orig_rax) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        again = (int)r->r10 < 0;
        break;
    case SYS_epoll_pwait2:
        again = !r->r10;
        break;
    case SYS_rt_sigtimedwait:
        again = !r->rdx;
        break;
    case SYS_semop:
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
        again = true;
        break;
    }
    if (again && (long)r->rax == -EINTR && !has_signal(tid)) {
        r->rax = r->orig_rax;
        r->rip -= 2;
        r->orig_rax = -1ull;
    }
}

static void gives_back(struct borrowed *b)
{
    struct iovec regs = {&b->regs, sizeof b->regs}, xstate = {b->xstate, b->xstate_size};
    calls_again(b->tid, &b->regs);
    ptrace(PTRACE_SETREGSET, b->tid, NT_X86_XSTATE, &xstate);
    ptrace(PTRACE_SETREGSET, b->tid, NT_PRSTATUS, &regs);
    ptrace(PTRACE_SETSIGMASK, b->tid, sizeof b->mask, &b->mask);
    ptrace(PTRACE_DETACH, b->tid, NULL, (long)b->signal);
}

void thread_release(pid_t tid)
{
    struct user_regs_struct now, then;
    struct iovec regs = {&now, sizeof now};
    if (!ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &regs)) {
        then = now;
        calls_again(tid, &then);
        regs.iov_base = &then;
        if (then.rip != now.rip)
            ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &regs);
    }
    ptrace(PTRACE_DETACH, tid, NULL, NULL);
}

/* Is the signal that it has stopped for a tick of a clock (perf_event_open(2), sigtrap)?  It can wait for nothing: what
 * it says would be lost, and the program would take it for another one. */
static bool is_tick(pid_t tid)
{
    siginfo_t info;
    return !ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) && info.si_signo == SIGTRAP &&
           info.si_code == TRAP_PERF;
}

/* Runs from `regs` until the trap that ends at `trap`, or, at 0, for one instruction.  Returns 0 or an errno. */
static int runs(struct borrowed *b, struct user_regs_struct *regs, uint64_t trap)
{
    struct iovec vector = {regs, sizeof *regs};
    if (ptrace(PTRACE_SETREGSET, b->tid, NT_PRSTATUS, &vector))
        return errno;
    for (;;) {
        int status;
        if (ptrace(trap ? PTRACE_CONT : PTRACE_SINGLESTEP, b->tid, NULL, NULL))
            return errno;
        int r = await_stop(b->tid, FOR_EVER, &status); /* there is no way back before */
        if (r)
            return r;
        if (status >> 16) /* of its group, or of nothing */
            continue;
        vector.iov_len = sizeof *regs;
        if (ptrace(PTRACE_GETREGSET, b->tid, NT_PRSTATUS, &vector))
            return errno;
        int signal = WSTOPSIG(status);
        if (signal == SIGTRAP && is_tick(b->tid))
            continue;
        if (signal == SIGTRAP && (!trap || regs->rip == trap))
            return 0;
        if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE)
            return EFAULT;
        b->signal = signal; /* SIGSTOP, or the program's own trap: later */
    }
}

/* Makes a system call in the thread.  Returns its result, -errno too. */
static long calls_kernel(struct borrowed *b, uint64_t at, long nr, uint64_t a0, uint64_t a1,
                         uint64_t a2, uint64_t a3, uint64_t a4)
{
    struct user_regs_struct r = b->regs;
    r.rip = at;
    r.rax = (uint64_t)nr;
    r.orig_rax = -1ull; /* nothing to restart */
    r.rdi = a0, r.rsi = a1, r.rdx = a2, r.r10 = a3, r.r8 = a4, r.r9 = 0;
    int error = runs(b, &r, 0);
    return error ? -error : (long)r.rax;
}

static bool may(const struct borrowed *b, const struct inject_request *q)
{
    uint64_t word;
    if (q->by == INJECT_SLEEPER)
        return was_interrupted(&b->regs) && sleeps(&b->regs, q);
    return reads(b->pid, q->lock, &word, sizeof word) && (word & q->lock_mask) == q->lock_free;
}

static int begins(struct borrowed *b, const struct inject_request *q)
{
    long at = calls_kernel(b, q->syscall_at, SYS_mmap, 0, MAPPING_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1ull);
    if (at < 0 && at > -4096)
        return (int)-at;
    uint64_t base = (uint64_t)at, data = base + CODE_BYTES;
    char code[CODE_BYTES];
    size_t n = (uintptr_t)injected_end - (uintptr_t)injected_start, begin = 64;
    if (n > sizeof code - begin)
        return E2BIG;
    memset(code, 0xcc, sizeof code);
    memcpy(code, trampoline, sizeof trampoline);
    memcpy(code + begin, injected_start, n);
    struct injected in = q->in;
#define THERE(function)                                                                            \
    (base + begin + (uint64_t)(uintptr_t)(function) - (uint64_t)(uintptr_t)injected_start)
    in.thread_body = (void *(*)(void *))THERE(injected_thread);
    in.mapping = (void *)base;
    in.mapping_size = MAPPING_BYTES;
    memset(&in.all, 0xff, sizeof in.all);
    int error = 0;
    long r = 0;
    if (!writes(b->pid, base, code, sizeof code) || !writes(b->pid, data, &in, sizeof in))
        error = EFAULT;
    if (!error)
        r = calls_kernel(b, q->syscall_at, SYS_mprotect, base, CODE_BYTES, PROT_READ | PROT_EXEC, 0,
                         0);
    if (!error && r)
        error = (int)-r;
    if (!error) {
        struct user_regs_struct regs = b->regs;
        regs.rip = base;
        regs.rsp = base + MAPPING_BYTES - 64;
        regs.orig_rax = -1ull;
        regs.eflags &= ~0x500ull; /* direction and trap flags */
        if (q->by == INJECT_SLEEPER) {
            regs.rax = THERE(injected_make_thread);
            regs.rdi = data;
        } else {
            regs.rax = q->add_pending;
            regs.rdi = THERE(injected_pending);
            regs.rsi = data;
        }
        error = runs(b, &regs, base + TRAP_AT);
        if (!error && (int)regs.rax)
            error = (int)regs.rax < 0 ? EAGAIN : (int)regs.rax;
    }
    if (error)
        calls_kernel(b, q->syscall_at, SYS_munmap, base, MAPPING_BYTES, 0, 0, 0);
    else {
        int yes =
            1; /* by the time that this is seen the thread has left it, or has only its registers to get */
        writes(b->pid, data + offsetof(struct injected, released), &yes, sizeof yes);
    }
    return error;
}

enum inject_result inject(pid_t pid, pid_t tid, const struct inject_request *request, int *error,
                          uint64_t *stopped_ns)
{
    struct borrowed b = {.pid = pid, .tid = tid};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* whatever comes, the thread is put back first */
    uint64_t begin = now_ns();
    enum inject_result result = thread_stop(tid, error);
    if (result == INJECT_DONE) {
        if (!takes_state(&b)) {
            *error = errno;
            thread_release(tid);
            result = INJECT_FAILED;
        } else if (!may(&b, request)) {
            thread_release(tid);
            result = INJECT_UNSAFE;
        } else {
            uint64_t but_forced = ~FORCED;
            ptrace(PTRACE_SETSIGMASK, tid, sizeof but_forced, &but_forced);
            *error = begins(&b, request);
            gives_back(&b);
            result = *error ? INJECT_FAILED : INJECT_DONE;
        }
    }
    *stopped_ns = now_ns() - begin;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}
