/* Nanoseconds of CPU time that a region of native code takes, pushed and popped; the library is in the process. */
#include <time.h>

struct pyhybrid_region;
typedef void call(const struct pyhybrid_region *);

double loop(call *push, call *pop, const struct pyhybrid_region *region, int n);

double loop(call *push, call *pop, const struct pyhybrid_region *region, int n)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < n; i++) {
        push(region);
        pop(region);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
}
