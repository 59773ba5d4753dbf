/* parallel: regions of two OpenMP threads, each of which burns CPU time of its own, or one while the other waits. */
#include <omp.h>
#include <time.h>

static long cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `us` of each thread; returns what they took in all, ns. */
__attribute__((noinline)) long region(long us)
{
    static volatile long sink;
    long all = 0;
#pragma omp parallel num_threads(2) reduction(+ : all)
    {
        long began = cpu_ns(), now = began;
        while (now < began + us * 1000) {
            for (int i = 0; i < 2000; i++)
                sink = i;
            now = cpu_ns();
        }
        all += now - began;
    }
    return all;
}

/* `us` of the first thread alone, `times` times; returns what that took, ns. */
__attribute__((noinline)) long alone(long us, long times)
{
    long all = 0;
    while (times--) {
#pragma omp parallel num_threads(2) reduction(+ : all)
        {
            long began = cpu_ns(), now = began;
            while (!omp_get_thread_num() && now < began + us * 1000)
                now = cpu_ns();
            all += now - began;
        }
    }
    return all;
}
