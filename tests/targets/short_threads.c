/* Native threads, one after the other, each of which runs for a given CPU time; with signals blocked, if asked for. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>

static long cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static volatile unsigned long sum;

__attribute__((noinline)) void burn_native(long us)
{
    while (cpu_us() < us)
        for (int i = 0; i < 1000; i++)
            sum += (unsigned long)i;
}

static void *burn(void *us)
{
    burn_native((long)us);
    return NULL;
}

int in_threads(int n, long us)
{
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, burn, (void *)us);
        pthread_join(thread, NULL);
    }
    return n;
}

/* As libraries do for their helper threads: the creator's mask is inherited. */
void in_blocked_thread(const char *name, long us)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, burn, (void *)us);
    pthread_setname_np(thread, name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_join(thread, NULL);
}
