/* The sink `tracy`: zones, thread names and messages for the Tracy client that is in the process, or that is named.
 *
 * Tracy's protocol changes with its versions, and a client speaks to a viewer of its own version only, so we bring
 * none.  Its C functions have stayed: they are found by name, wherever they are.  What is loaded later is looked for as
 * well.
 *
 * A client keeps the address of a source location for ever, and may be asked for its strings at any time: they are made
 * once for all sessions, and never freed. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "defining_library.h"
#include "loader_lock.h"
#include "map.h"
#include "sink.h"

#define LOCATIONS_MAX 32000 /* a capture of 0.11 to 0.14 fails beyond 32,767 */
#define SLOTS (1u << 16)
#define DEPTH_MAX (1u << 16) /* zones of a thread */
#define TEXT_MAX 65000       /* a client takes less than 65,536 bytes */

/* TracyC.h: ___tracy_source_location_data. */
struct location {
    const char *name, *function, *file;
    uint32_t line, color;
};

/* TracyCZoneCtx: half of it, unless the client is built with TRACY_ON_DEMAND.  Returned, or as the last argument, the
 * larger one serves both (System V ABI for x86-64, 3.2.3): so zones are given no text. */
typedef struct {
    uint64_t halves[2];
} zone;

static struct {
    zone (*begin)(const struct location *, int32_t active);
    void (*end)(zone);
    void (*name_thread)(const char *);
    void (*message)(const char *, size_t, int32_t call_stack); /* of 0.13 and before */
    void (*log)(int8_t severity, int32_t colour, int32_t call_stack, size_t, const char *);
    int32_t (*is_connected)(void);
    int32_t (*is_started)(void); /* with TRACY_MANUAL_LIFETIME only; so is: */
    void (*start_up)(void);
} client;
#define BEGIN "___tracy_emit_zone_begin"

static void *library;              /* what has them; NULL: not found yet */
static bool is_brought;            /* by us: the program has none */
static _Atomic bool ready;         /* zones may begin */
static unsigned long long n_known; /* libraries, that have been looked at */
static uint32_t own_place;
static bool with_lines;

/* The zones of a thread that began. */
struct zones {
    uint32_t n;
    struct {
        uint32_t at; /* twice the depth of a function; one more: a line of it */
        zone zone;
    } open[DEPTH_MAX];
};

/* Zones that ended while their thread could not notify the client, which takes an end for that of the calling thread:
 * it does so at its next event, perhaps in another session. */
static struct late {
    struct late *next;
    int tid;
    zone zone;
} *late_ends;
static uint64_t n_too_deep;

/* --- the client ----------------------------------------------------------------------------------- */

static bool resolve(void *from)
{
    *(void **)&client.begin = dlsym(from, BEGIN);
    *(void **)&client.end = dlsym(from, "___tracy_emit_zone_end");
    *(void **)&client.name_thread = dlsym(from, "___tracy_set_thread_name");
    *(void **)&client.message = dlsym(from, "___tracy_emit_message");
    *(void **)&client.log = dlsym(from, "___tracy_emit_logString");
    *(void **)&client.is_connected = dlsym(from, "___tracy_connected");
    *(void **)&client.is_started = dlsym(from, "___tracy_profiler_started");
    *(void **)&client.start_up = dlsym(from, "___tracy_startup_profiler");
    return client.begin && client.end && client.name_thread && client.is_connected;
}

/* Its threads do not take the program's signals. */
static void *load(const char *path, char *error, size_t error_bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!loaded) {
        snprintf(error, error_bytes, "%s", dlerror());
    } else if (!resolve(loaded)) {
        snprintf(error, error_bytes, "%s: it is no Tracy client", path);
        loaded = NULL;
    } else if (client.start_up && !(client.is_started && client.is_started())) {
        client.start_up();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loaded;
}

/* A client that is connected takes SIGPIPE for a crash, and ends a program that writes to where nobody reads: what the
 * signal did before is what it does again. */
static struct sigaction before_connected;
static bool was_connected;

static void give_sigpipe_back(void)
{
    bool is_connected = client.is_connected();
    if (!is_connected) {
        sigaction(SIGPIPE, NULL, &before_connected);
    } else if (!was_connected) {
        clock_sleep_ns(1000000); /* it reports that it is connected, then takes the signals */
        sigaction(SIGPIPE, &before_connected, NULL);
    }
    was_connected = is_connected;
}

static void look(void)
{
    if (!library) {
        void *found = defining_library(BEGIN, &n_known);
        if (found && resolve(found))
            library = found;
    }
    if (library && !atomic_load(&ready))
        atomic_store(&ready, !client.is_started || client.is_started());
    if (atomic_load(&ready))
        give_sigpipe_back();
}

/* --- what zones are called ------------------------------------------------------------------------ */

static struct location *locations[SLOTS]; /* by their content */
static uint32_t n_locations;
static const struct location other = {.name = "[other]", .function = "[other]", .file = ""};
static const struct location **of_function; /* by its id, twice: its first turn, a further one */
static size_t of_function_bytes;
static struct line {
    const struct emit_function *function;
    const struct location *location;
    uint32_t number;
} of_line[1 << 12];      /* direct-mapped */
static uint64_t n_other; /* functions and lines that have none of their own */

static uint32_t hash(uint32_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u; /* FNV-1a */
    return h;
}

static bool is_library(const char *file)
{
    return strstr(file, "/site-packages/") || strstr(file, "/lib/python3") || *file == '<';
}

static bool is_same(const struct location *a, const struct location *b)
{
    return a->line == b->line && a->color == b->color && !strcmp(a->function, b->function) &&
           !strcmp(a->file, b->file);
}

static void forget(struct location *l)
{
    free((char *)l->name);
    free((char *)l->function);
    free((char *)l->file);
    free(l);
}

static struct location *copy(const struct location *from)
{
    struct location *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->name = from->name ? strndup(from->name, TEXT_MAX) : NULL;
    l->function = strndup(from->function, TEXT_MAX);
    l->file = strndup(from->file, TEXT_MAX);
    l->line = from->line;
    l->color = from->color;
    if (l->function && l->file)
        return l;
    forget(l);
    return NULL;
}

static const struct location *intern(const struct location *wanted)
{
    uint32_t i = hash(hash(2166136261u ^ wanted->line, wanted->function), wanted->file) % SLOTS;
    for (; locations[i]; i = (i + 1) % SLOTS)
        if (is_same(locations[i], wanted))
            return locations[i];
    if (n_locations == LOCATIONS_MAX || !(locations[i] = copy(wanted))) {
        n_other++;
        return &other;
    }
    n_locations++;
    return locations[i];
}

static uint32_t colour_of(const struct emit_function *f, bool is_first)
{
    uint32_t colour = f->is_region ? 0xd08020 : is_library(f->shown.file) ? 0x506878 : 0x2860c8;
    return is_first ? colour : colour + 0x282828; /* lighter */
}

static const struct location *location_of(const struct emit_turn *turn)
{
    const struct emit_function *f = turn->function;
    bool is_first = turn->kind == EMIT_START;
    size_t at = 2 * (size_t)f->id + !is_first;
    if (at * sizeof *of_function < of_function_bytes && of_function[at])
        return of_function[at];
    if (!map_memory_grow(&of_function, &of_function_bytes, at + 1, sizeof *of_function))
        return &other;
    struct location wanted = {
        .function = f->shown.qualname,
        .file = f->shown.file,
        .line = f->line,
        .color = colour_of(f, is_first),
    };
    return of_function[at] = intern(&wanted);
}

static const struct location *location_of_line(const struct emit_function *f, uint32_t number)
{
    struct line *l = &of_line[(f->id * 61 + number) % (sizeof of_line / sizeof *of_line)];
    if (l->function != f || l->number != number) {
        const char *base = strrchr(f->shown.file, '/');
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s:%u", base ? base + 1 : f->shown.file, number);
        struct location wanted = {
            .name = name,
            .function = f->shown.qualname,
            .file = f->shown.file,
            .line = number,
            .color = 0x308050,
        };
        *l = (struct line){.function = f, .number = number, .location = intern(&wanted)};
    }
    return l->location;
}

/* --- turns ---------------------------------------------------------------------------------------- */

static bool is_own_thread(const struct emit_thread *t)
{
    return syscall(SYS_gettid) == t->tid;
}

static void end_down_to(struct zones *z, uint32_t at)
{
    while (z->n && z->open[z->n - 1].at >= at)
        client.end(z->open[--z->n].zone);
}

static void end_later(const struct emit_thread *t, zone ended)
{
    struct late *l = malloc(sizeof *l), **last = &late_ends;
    if (!l)
        return;
    while (*last)
        last = &(*last)->next;
    *l = (struct late){.tid = t->tid, .zone = ended};
    *last = l;
}

static void end_late_ones(const struct emit_thread *t)
{
    for (struct late **at = &late_ends, *l; (l = *at);) {
        if (l->tid != t->tid) {
            at = &l->next;
            continue;
        }
        client.end(l->zone);
        *at = l->next;
        free(l);
    }
}

/* The client would rename it for the kernel, too. */
static void thread(const struct emit_thread *t)
{
    char name[16] = "";
    if (!is_own_thread(t))
        return;
    prctl(PR_GET_NAME, name);
    client.name_thread(t->name);
    prctl(PR_SET_NAME, name);
}

static void begin_at(const struct emit_thread *t, uint32_t at, const struct location *l)
{
    struct zones *z = t->data[own_place];
    if (late_ends)
        end_late_ones(t);
    end_down_to(z, at);
    if (z->n == DEPTH_MAX) {
        n_too_deep++;
        return;
    }
    z->open[z->n].at = at;
    z->open[z->n++].zone = client.begin(l, 1);
}

static void begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    begin_at(t, 2 * turn->depth, location_of(turn));
}

static void line(const struct emit_thread *t, const struct emit_turn *turn)
{
    begin_at(t, 2 * turn->depth + 1, location_of_line(turn->function, turn->line));
}

static void end(const struct emit_thread *t, const struct emit_turn *turn)
{
    struct zones *z = t->data[own_place];
    if (turn->kind != EMIT_CUT_OFF || is_own_thread(t))
        end_down_to(z, 2 * turn->depth);
    else
        while (z->n && z->open[z->n - 1].at >= 2 * turn->depth)
            end_later(t, z->open[--z->n].zone);
}

static void message(const struct emit_thread *t, const char *text)
{
    enum { INFO = 2 };
    size_t n = strnlen(text, TEXT_MAX);
    (void)t;
    if (client.log)
        client.log(INFO, 0, 0, n, text);
    else if (client.message)
        client.message(text, n, 0);
}

/* --- open and close ------------------------------------------------------------------------------- */

static void end_at_once(int code, void *unused)
{
    (void)unused;
    fflush(NULL);
    _exit(code);
}

/* The client that we brought waits at the exit for its threads, which are not in the child, and crashes: a child runs
 * the exit functions that it has added, and no others. */
static void after_fork_child(void)
{
    loader_after_fork_child();
    if (is_brought)
        on_exit(end_at_once, NULL);
}

static void mind_forks(void)
{
    pthread_atfork(loader_before_fork, loader_after_fork_parent, after_fork_child);
}

/* lines, lines:LIBRARY, LIBRARY or nothing. */
static int open_sink(uint32_t place, const char *argument, char *error, size_t error_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, mind_forks);
    own_place = place;
    n_other = n_too_deep = 0;
    with_lines = sink_argument_takes(&argument, "lines");
    if (!was_connected)
        sigaction(SIGPIPE, NULL, &before_connected);
    look();
    if (library || !*argument)
        return 0;
    library = load(argument, error, error_bytes);
    is_brought = library;
    atomic_store(&ready, library != NULL);
    return library ? 0 : -ENOENT;
}

static uint32_t wants(void)
{
    return !atomic_load(&ready) ? 0 : with_lines ? EMIT_TURNS | EMIT_BIT(EMIT_LINE) : EMIT_TURNS;
}

static void remark(char *message, size_t bytes)
{
    if (!atomic_load(&ready))
        snprintf(message, bytes,
                 "the live output tracy: no Tracy client was loaded: name one "
                 "(--emit tracy:LIBRARY)");
    else if (n_other)
        snprintf(
            message, bytes,
            "the live output tracy: %llu functions or lines are [other]: a capture takes %d places",
            (unsigned long long)n_other, LOCATIONS_MAX);
    else if (n_too_deep)
        snprintf(message, bytes,
                 "the live output tracy: %llu zones, of more than %u in one another, are not there",
                 (unsigned long long)n_too_deep, DEPTH_MAX);
}

static void close_sink(void)
{
    memset(of_line, 0, sizeof of_line);
    map_memory_free(of_function, of_function_bytes);
    of_function = NULL;
    of_function_bytes = 0;
}

extern const struct emit_sink pyhybrid_sink __attribute__((visibility("default")));

const struct emit_sink pyhybrid_sink = {
    .size = sizeof(struct emit_sink),
    .thread_bytes = sizeof(struct zones),
    .open = open_sink,
    .look = look,
    .wants = wants,
    .thread = thread,
    .begin = begin,
    .end = end,
    .point = line,
    .message = message,
    .remark = remark,
    .close = close_sink,
};
