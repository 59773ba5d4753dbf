/* clock.h - the two clocks that samples carry.
 *
 * Context: async-signal-safe (clock_gettime is, by POSIX; CLOCK_MONOTONIC is the vdso's, 24 ns,
 * the thread CPU clock a system call, 430 ns).
 */
#ifndef PYH_CLOCK_H
#define PYH_CLOCK_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* The CPU clock of thread `tid` of this process, for any thread to read (man 3 clock_gettime,
 * Linux: kernel/time/posix-cpu-timers.c, MAKE_THREAD_CPUCLOCK with CPUCLOCK_SCHED). */
static inline clockid_t clock_of_thread(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

#endif
