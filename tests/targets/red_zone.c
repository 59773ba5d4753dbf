/* A function that calls nothing, whose variables lie below the stack pointer, around a probe: are they what they were?
 * Prints `ready`, waits for a byte, which comes when a tracer has attached, makes calls, and prints how many were wrong. */
#include <stdio.h>

#include "probe.h"

#define CALLS 20000

PROBE_SEMAPHORE(attached);

static __attribute__((noinline)) long leaf(volatile long x)
{
    volatile long below[8];
    for (int i = 0; i < 8; i++)
        below[i] = x + i;
    PROBE_SITE(PROBE_NOTE(pyhybrid, RED_ZONE, attached, "-4@%[x]"), PROBE_INT(x, x));
    long sum = 0;
    for (int i = 0; i < 8; i++)
        sum += below[i];
    return sum - 8 * x - 28;
}

int main(void)
{
    int wrong = 0;
    setlinebuf(stdout);
    puts("ready");
    getchar(); /* the semaphore is counted up before the breakpoint is there */
    for (int i = 0; i < CALLS; i++)
        wrong += leaf(i) != 0;
    printf("%d wrong, attached: %d\n", wrong, attached);
    getchar(); /* the tracer is still there */
    return 0;
}
