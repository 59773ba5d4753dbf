/* stress.c - what a signal handler must bear to interrupt: for test_stress.py, which calls it by ctypes.
 *
 * Each exported function works on several threads until `seconds` have gone by, and returns how many steps
 * these did, or -1 where something was not as it should be.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS 256

struct job {
    bool (*step)(struct job *);
    const char *path;
    double until;
    unsigned seed;
    long steps;
    void *block[BLOCKS];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *work(void *arg)
{
    struct job *job = arg;
    for (; now() < job->until; job->steps++)
        if (!job->step(job))
            return job;
    for (int i = 0; i < BLOCKS; i++)
        free(job->block[i]);
    return NULL;
}

static long run(bool (*step)(struct job *), double seconds, const char *path)
{
    pthread_t thread[THREADS];
    struct job *jobs = calloc(THREADS, sizeof *jobs);
    double until = now() + seconds;
    long steps = 0;
    bool failed = false;
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.step = step, .path = path, .until = until, .seed = i + 1};
        pthread_create(&thread[i], NULL, work, &jobs[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *broken;
        pthread_join(thread[i], &broken);
        failed |= broken != NULL;
        steps += jobs[i].steps;
    }
    free(jobs);
    return failed ? -1 : steps;
}

/* Blocks of all sizes, the largest by mmap; each begins and ends with its number. */
static bool allocate(struct job *job)
{
    unsigned at = (unsigned)rand_r(&job->seed) % BLOCKS;
    size_t size = (size_t)1 << (rand_r(&job->seed) % 18 + 4);
    unsigned char *block = job->block[at];
    if (block && *block != (unsigned char)at)
        return false;
    block = realloc(block, size);
    block[0] = block[size - 1] = (unsigned char)at;
    job->block[at] = block;
    return true;
}

long malloc_storm(double seconds)
{
    return run(allocate, seconds, NULL);
}

/* A library comes, is called, and goes. */
static bool load(struct job *job)
{
    void *library = dlopen(job->path, RTLD_NOW | RTLD_LOCAL);
    long (*spin)(long) = library ? (long (*)(long))dlsym(library, "spin") : NULL;
    return spin && spin(20000) == 20000 && !dlclose(library);
}

long dlopen_storm(double seconds, const char *path)
{
    return run(load, seconds, path);
}

static int allocate_in_callback(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    void *block = malloc(1024 + info->dlpi_phnum);
    *(int *)data += block != NULL;
    free(block);
    return 0;
}

/* With one arena (MALLOC_ARENA_MAX=1): a handler that took the loader's lock or malloc's would hang. */
static bool iterate(struct job *job)
{
    int n = 0;
    free(malloc(100 + (size_t)rand_r(&job->seed) % 5000));
    dl_iterate_phdr(allocate_in_callback, &n);
    return n > 0;
}

long phdr_storm(double seconds)
{
    return run(iterate, seconds, NULL);
}

static void *short_life(void *arg)
{
    volatile long sum = 0;
    for (long i = 0; i < (long)arg; i++)
        sum += i;
    return arg;
}

/* Threads that begin and end, some with stacks that are just large enough. */
static bool live(struct job *job)
{
    pthread_attr_t attributes;
    pthread_t thread[4];
    void *result;
    bool good = true;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, rand_r(&job->seed) % 2 ? 64 << 10 : 1 << 20);
    for (long i = 0; i < 4; i++)
        pthread_create(&thread[i], &attributes, short_life, (void *)(i * 20000));
    for (long i = 0; i < 4; i++)
        good &= !pthread_join(thread[i], &result) && result == (void *)(i * 20000);
    pthread_attr_destroy(&attributes);
    return good;
}

long thread_storm(double seconds)
{
    return run(live, seconds, NULL);
}

static __thread volatile sig_atomic_t n_handled;

static void handle(int number)
{
    volatile long sum = 0;
    (void)number;
    for (int i = 0; i < 2000; i++)
        sum += i;
    n_handled++;
}

/* The program's own signals, on an alternate stack. */
static bool be_signalled(struct job *job)
{
    static __thread bool has_stack;
    if (!has_stack) {
        stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = (size_t)SIGSTKSZ};
        sigaltstack(&stack, NULL);
        has_stack = true;
    }
    sig_atomic_t before = n_handled;
    (void)job;
    return !pthread_kill(pthread_self(), SIGUSR2) && n_handled != before;
}

long signal_storm(double seconds)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR2, &action, NULL);
    return run(be_signalled, seconds, NULL);
}
