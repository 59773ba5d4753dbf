/* The sink `tracy`: zones, thread names and messages for the Tracy client that is in the process, or that is named.
 *
 * Tracy's protocol changes with its versions, and a client speaks to a viewer of its own version only, so we bring none.
 * Its C functions have stayed: they are found by name, wherever they are.  What is loaded later is looked for as well.
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

#include "exported.h"
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
static _Atomic bool ready;         /* zones may begin */
static unsigned long long n_known; /* libraries, that have been looked at */
static uint32_t own_place;

/* The zones of a thread that began. */
struct zones {
    uint32_t n;
    struct {
        uint32_t depth;
        zone zone;
    } open[DEPTH_MAX];
};

/* Zones that ended while their thread could not tell the client, which takes an end for that of the calling thread: it
 * does so when it is heard of again, perhaps in another session. */
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
    static const struct timespec moment = {.tv_nsec = 1000000};
    bool is_connected = client.is_connected();
    if (!is_connected) {
        sigaction(SIGPIPE, NULL, &before_connected);
    } else if (!was_connected) {
        nanosleep(&moment, NULL); /* it says that it is connected, then takes the signals */
        sigaction(SIGPIPE, &before_connected, NULL);
    }
    was_connected = is_connected;
}

static void look(void)
{
    if (!library) {
        void *found = exported_by(BEGIN, &n_known);
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
static uint64_t n_other; /* functions that have none of their own */

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

static struct location *copy(const struct location *from)
{
    struct location *l = malloc(sizeof *l);
    char *function = strndup(from->function, TEXT_MAX), *file = strndup(from->file, TEXT_MAX);
    if (!l || !function || !file) {
        free(l);
        free(function);
        free(file);
        return NULL;
    }
    *l = *from;
    l->function = function;
    l->file = file;
    return l;
}

static const struct location *intern(const struct location *wanted)
{
    uint32_t i = hash(hash(2166136261u ^ wanted->line, wanted->function), wanted->file) % SLOTS;
    for (; locations[i]; i = (i + 1) % SLOTS)
        if (is_same(locations[i], wanted))
            return locations[i];
    if (n_locations == LOCATIONS_MAX || !(locations[i] = copy(wanted)))
        return NULL;
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
    if (!map_memory_grow(&of_function, &of_function_bytes, at + 1, sizeof *of_function))
        return &other;
    if (of_function[at])
        return of_function[at];
    struct location wanted = {
        .function = f->shown.qualname,
        .file = f->shown.file,
        .line = f->line,
        .color = colour_of(f, is_first),
    };
    of_function[at] = intern(&wanted);
    if (!of_function[at]) {
        of_function[at] = &other;
        n_other++;
    }
    return of_function[at];
}

/* --- turns ---------------------------------------------------------------------------------------- */

static bool is_own_thread(const struct emit_thread *t)
{
    return syscall(SYS_gettid) == t->tid;
}

static void end_down_to(struct zones *z, uint32_t depth)
{
    while (z->n && z->open[z->n - 1].depth >= depth)
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

static void begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    struct zones *z = t->data[own_place];
    if (late_ends)
        end_late_ones(t);
    end_down_to(z, turn->depth);
    if (z->n == DEPTH_MAX) {
        n_too_deep++;
        return;
    }
    z->open[z->n].depth = turn->depth;
    z->open[z->n++].zone = client.begin(location_of(turn), 1);
}

static void end(const struct emit_thread *t, const struct emit_turn *turn)
{
    struct zones *z = t->data[own_place];
    if (turn->kind == EMIT_CUT_OFF && !is_own_thread(t)) {
        if (z->n && z->open[z->n - 1].depth == turn->depth)
            end_later(t, z->open[--z->n].zone);
        return;
    }
    end_down_to(z, turn->depth);
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

static void keep_forks_out(void)
{
    pthread_atfork(loader_before_fork, loader_after_fork_parent, loader_after_fork_child);
}

static int open_sink(uint32_t place, const char *argument, char *error, size_t error_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_forks_out);
    own_place = place;
    n_other = n_too_deep = 0;
    if (!was_connected)
        sigaction(SIGPIPE, NULL, &before_connected);
    look();
    if (library || !*argument)
        return 0;
    library = load(argument, error, error_bytes);
    atomic_store(&ready, library != NULL);
    return library ? 0 : -ENOENT;
}

static uint32_t wants(void)
{
    return atomic_load(&ready) ? EMIT_TURNS : 0;
}

static void remark(char *said, size_t bytes)
{
    if (!atomic_load(&ready))
        snprintf(
            said, bytes,
            "the live output tracy: no Tracy client was loaded: name one (--emit tracy:LIBRARY)");
    else if (n_other)
        snprintf(said, bytes,
                 "the live output tracy: %llu functions are [other]: a capture takes %d places",
                 (unsigned long long)n_other, LOCATIONS_MAX);
    else if (n_too_deep)
        snprintf(said, bytes,
                 "the live output tracy: %llu zones, of more than %u in one another, are not there",
                 (unsigned long long)n_too_deep, DEPTH_MAX);
}

static void close_sink(void)
{
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
    .message = message,
    .remark = remark,
    .close = close_sink,
};
