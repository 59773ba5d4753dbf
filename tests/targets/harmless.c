/* For tests/system/harmless/test_harmless.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Preloaded: the profiler's thread takes 20 ms to look at the first library, or 250 ms, as on a busy machine. */

static struct {
    int (*callback)(struct dl_phdr_info *, size_t, void *);
    void *data;
    int slept, looks;
} slow;

static int slow_callback(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)data;
    int result = slow.callback(info, size, slow.data);
    if (!slow.slept++)
        usleep(slow.looks++ % 3 ? 20000 : 250000);
    return result;
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    char name[16];
    int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
        dlsym(RTLD_NEXT, "dl_iterate_phdr");
    if (prctl(PR_GET_NAME, name) || strcmp(name, "pyhybrid"))
        return next(callback, data);
    slow.callback = callback;
    slow.data = data;
    slow.slept = 0;
    return next(slow_callback, NULL);
}

/* Threads that are cancelled while they read. */

static void *read_on(void *arg)
{
    static __thread char text[1 << 16];
    int zeros = *(int *)arg;
    for (;;)
        if (read(zeros, text, sizeof text) < 0)
            return NULL;
}

/* How many were cancelled, of `n`. */
int cancel_readers(int n);
int cancel_readers(int n)
{
    int n_cancelled = 0, zeros = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, read_on, &zeros))
            break;
        usleep(1000 + (unsigned)i % 7 * 300);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        n_cancelled += result == PTHREAD_CANCELED;
    }
    close(zeros);
    return n_cancelled;
}
