/* clock.h - the time, by the kernel's own clocks: whatever the program has put in the place of the C library's.
 *
 * A library that is preloaded may replace clock_gettime (libfaketime, in test suites), and the times of a profile come
 * from several places: the kernel's records, the time stamp counter, us.  So all of ours is read by what the C library
 * itself calls, the vdso's function or the system call; what waits or sets a timer is a system call, too.
 *
 * Context: async-signal-safe.  CLOCK_MONOTONIC is the vdso's, 24 ns, a thread's CPU clock a system call, 430 ns.
 */
#ifndef PYH_CLOCK_H
#define PYH_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include "arch_x86_64.h"

typedef int clock_reader(clockid_t clock, struct timespec *time);

/* The vdso's reader, which returns 0 or -errno and leaves errno alone.  NULL where clock.c has not found it, or is not
 * linked. */
__attribute__((weak, visibility("hidden"))) clock_reader *clock_reader_of_vdso;

/* Returns 0 where there is no such clock. */
static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_reader_of_vdso ? clock_reader_of_vdso(clock, &t)
                             : arch_syscall6(SYS_clock_gettime, clock, (long)&t, 0, 0, 0, 0))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Returns the CPU clock of thread `tid` of this process, for any thread to read (man 3 clock_gettime,
 * Linux: kernel/time/posix-cpu-timers.c, MAKE_THREAD_CPUCLOCK with CPUCLOCK_SCHED). */
static inline clockid_t clock_of_thread(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

/* Sleeps for `ns`, or until a signal comes. */
void clock_sleep_ns(uint64_t ns);

#endif
