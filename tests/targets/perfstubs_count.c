/* A tool of PerfStubs that is not ours: how often each timer was started, and whether stops were of the innermost one, goes
 * to the file $PS_COUNTS at the end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMERS 4096
#define DEPTH 4096

struct timer {
    char *name;
    _Atomic unsigned long n;
};

static struct timer timers[TIMERS];
static unsigned n_timers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned long n_threads, n_wrong, n_open, n_dumps, n_finals;
static __thread struct timer *stack[DEPTH];
static __thread unsigned depth;

void ps_tool_initialize(void);
void ps_tool_finalize(void);
void ps_tool_register_thread(void);
void ps_tool_dump_data(void);
void *ps_tool_timer_create(const char *name);
void ps_tool_timer_start(void *timer);
void ps_tool_timer_stop(void *timer);

void ps_tool_initialize(void)
{
}

void ps_tool_register_thread(void)
{
    n_threads++;
}

void ps_tool_dump_data(void)
{
    n_dumps++;
}

void *ps_tool_timer_create(const char *name)
{
    pthread_mutex_lock(&lock);
    unsigned i = 0;
    while (i < n_timers && strcmp(timers[i].name, name))
        i++;
    if (i == n_timers && n_timers < TIMERS)
        timers[n_timers++].name = strdup(name);
    pthread_mutex_unlock(&lock);
    return &timers[i];
}

void ps_tool_timer_start(void *timer)
{
    struct timer *t = timer;
    t->n++;
    n_open++;
    if (depth < DEPTH)
        stack[depth] = t;
    depth++;
}

void ps_tool_timer_stop(void *timer)
{
    if (!depth || (depth <= DEPTH && stack[depth - 1] != timer))
        n_wrong++;
    depth -= depth > 0;
    n_open--;
}

void ps_tool_finalize(void)
{
    n_finals++;
}

static __attribute__((destructor)) void write_counts(void)
{
    const char *path = getenv("PS_COUNTS");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "threads\t%lu\nwrong\t%lu\nopen\t%lu\ndumps\t%lu\nfinals\t%lu\n", n_threads, n_wrong,
            n_open, n_dumps, n_finals);
    for (unsigned i = 0; i < n_timers; i++)
        fprintf(f, "timer %s\t%lu\n", timers[i].name, timers[i].n);
    fclose(f);
}
