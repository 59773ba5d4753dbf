/* The sink `perfstubs`: Python functions as timers of the PerfStubs tool (TAU, APEX) that is in the process, or that is
 * named.
 *
 * A tool stops what a thread started last, whatever it is asked to stop, and takes who calls for the thread it is about.  So
 * each thread's open timers are kept here: they end innermost first, and only on that thread.
 *
 * Source: perfstubs_api/tool.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "map.h"
#include "sink.h"

#define DEPTH_MAX (1u << 16) /* timers of a thread */
#define NAME_MAX_BYTES 4096

static struct {
    void (*initialize)(void);
    void (*register_thread)(void); /* this and the next two may be NULL */
    void (*dump_data)(void);
    void (*finalize)(void);
    void *(*create)(const char *name);
    void (*start)(void *timer);
    void (*stop)(void *timer);
} tool;

static void (*initialized)(void); /* of the tool that has been; NULL: none has */
static pid_t process;             /* where */
static void **of_function;        /* timers, by the function's id */
static size_t of_function_bytes;
static uint32_t own_place;

/* The timers of a thread that run. */
struct timers {
    uint32_t n;
    struct {
        uint32_t depth;
        void *timer;
    } open[DEPTH_MAX];
};

/* --- the tool -------------------------------------------------------------------------------------- */

static void find(void *in)
{
    *(void **)&tool.initialize = dlsym(in, "ps_tool_initialize");
    *(void **)&tool.register_thread = dlsym(in, "ps_tool_register_thread");
    *(void **)&tool.dump_data = dlsym(in, "ps_tool_dump_data");
    *(void **)&tool.finalize = dlsym(in, "ps_tool_finalize");
    *(void **)&tool.create = dlsym(in, "ps_tool_timer_create");
    *(void **)&tool.start = dlsym(in, "ps_tool_timer_start");
    *(void **)&tool.stop = dlsym(in, "ps_tool_timer_stop");
}

/* Is it the one by which timers come to us (--regions perfstubs)?  What it reports would be reported to it again. */
static bool is_ours(void)
{
    Dl_info where;
    return dladdr(*(void **)&tool.initialize, &where) && where.dli_fname &&
           strstr(where.dli_fname, "libpyhybrid_tool_");
}

/* Once for the process, whatever is opened later: it may not bear more. */
static void at_exit(void)
{
    if (process == getpid() && tool.finalize)
        tool.finalize();
}

static int refuse(char *error, size_t bytes, const char *path, const char *why)
{
    snprintf(error, bytes, "%s%s%s", path, *path ? ": " : "", why);
    return -ENOENT;
}

static int open_sink(uint32_t place, const char *argument, char *error, size_t error_bytes)
{
    own_place = place;
    void *found = RTLD_DEFAULT;
    if (*argument && !(found = dlopen(argument, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE)))
        return refuse(error, error_bytes, "", dlerror());
    find(found);
    if (!tool.initialize)
        return refuse(error, error_bytes, argument,
                      *argument ? "it is no PerfStubs tool"
                                : "there is no PerfStubs tool: preload one, or name it "
                                  "(perfstubs:LIBRARY)");
    if (is_ours())
        return refuse(error, error_bytes, argument, "the tool is pyhybrid's own");
    if (!tool.create || !tool.start || !tool.stop)
        return refuse(error, error_bytes, argument, "the tool has no timers");
    if (process == getpid())
        return initialized == tool.initialize
                   ? 0
                   : refuse(error, error_bytes, argument, "another tool was told before");
    initialized = tool.initialize;
    process = getpid();
    tool.initialize();
    return atexit(at_exit) ? -ENOMEM : 0;
}

static void close_sink(void)
{
    if (tool.dump_data)
        tool.dump_data();
    map_memory_free(of_function,
                    of_function_bytes); /* ids begin anew; the tool knows its timers by name */
    of_function = NULL;
    of_function_bytes = 0;
}

/* --- timers ---------------------------------------------------------------------------------------- */

static void *timer_of(const struct emit_function *f)
{
    if ((f->id + 1) * sizeof *of_function > of_function_bytes &&
        !map_memory_grow(&of_function, &of_function_bytes, f->id + 1, sizeof *of_function))
        return NULL;
    if (of_function[f->id])
        return of_function[f->id];
    char name[NAME_MAX_BYTES];
    if (f->is_region)
        snprintf(name, sizeof name, "%s", f->names.name);
    else
        snprintf(name, sizeof name, "%s [{%s} {%u,0}]", f->names.qualname, f->names.file, f->line);
    return of_function[f->id] = tool.create(name);
}

/* The main thread is known. */
static void thread(const struct emit_thread *t)
{
    if (t->tid != process && tool.register_thread)
        tool.register_thread();
}

static void stop_down_to(struct timers *open, uint32_t depth)
{
    while (open->n && open->open[open->n - 1].depth >= depth)
        tool.stop(open->open[--open->n].timer);
}

static void begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    struct timers *open = t->data[own_place];
    stop_down_to(open, turn->depth);
    void *timer = open->n < DEPTH_MAX ? timer_of(turn->function) : NULL;
    if (!timer)
        return;
    open->open[open->n].depth = turn->depth;
    open->open[open->n++].timer = timer;
    tool.start(timer);
}

/* What is cut off may be another thread's: its next begin stops that. */
static void end(const struct emit_thread *t, const struct emit_turn *turn)
{
    if (turn->kind != EMIT_CUT_OFF || syscall(SYS_gettid) == t->tid)
        stop_down_to(t->data[own_place], turn->depth);
}

static uint32_t wants(void)
{
    return EMIT_TURNS;
}

extern const struct emit_sink pyhybrid_sink __attribute__((visibility("default")));

const struct emit_sink pyhybrid_sink = {
    .size = sizeof(struct emit_sink),
    .thread_bytes = sizeof(struct timers),
    .open = open_sink,
    .wants = wants,
    .thread = thread,
    .begin = begin,
    .end = end,
    .close = close_sink,
};
