/* The sink `lttng`: each begin and end is an event of LTTng-UST, recorded by whatever session of lttng-sessiond wants it.
 *
 * The only object that defines these events, and that knows LTTng (function_stats.h is its door for pylttng).  LTTng's own threads, two, live from the
 * time it is loaded to the end of the program; they sleep unless a session changes.
 *
 * Never: LTTNG_UST_ALLOW_BLOCKING, which would let the program wait for the daemon with the GIL; LTTng's following of forks,
 * after which children of subprocess(preexec_fn=...) abort (liblttng-ust 2.13).  So a child's copy of LTTng is left as the
 * fork found it, perhaps with a lock held by one of its threads, and is not touched again, at the exit either. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
/* How the probes below write a string.  LTTng's way goes byte by byte, for a string may change meanwhile: ours do not.  It
 * took 70 ns more for both names of a file of 75 bytes. */
#define event_strcpy(ctx, text, bytes) event_write(ctx, text, bytes, 1)
#include "lttng_stats.h"
#include "lttng_turns.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <lttng/ust-abi.h>
#include <lttng/ust-utils.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sink.h"

/* Where applications meet the daemon of the machine, and that of a user (lttng-ust(3), lttng-sessiond(8)); LTTng 2.13 has
 * `lttng-ust-sock-8`. */
#define SOCKET "lttng-ust-sock-" lttng_ust_stringify(LTTNG_UST_ABI_MAJOR_VERSION_OLDEST_COMPATIBLE)
#define OF_THE_MACHINE "/var/run/lttng/" SOCKET

static bool answers(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if ((size_t)snprintf(at.sun_path, sizeof at.sun_path, "%s", path) >= sizeof at.sun_path)
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool yes = fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof at);
    if (fd >= 0)
        close(fd);
    return yes;
}

static bool there_is_a_daemon(void)
{
    char path[4096] = "";
    const char *home = getenv("LTTNG_HOME");
    if (!home)
        home = getenv("HOME");
    if (home)
        snprintf(path, sizeof path, "%s/.lttng/" SOCKET, home);
    return answers(OF_THE_MACHINE) || answers(path);
}

static int open_sink(uint32_t place, const char *argument, char *message, size_t message_bytes)
{
    (void)place;
    if (*argument) {
        snprintf(message, message_bytes, "it takes no argument");
        return -EINVAL;
    }
    if (!there_is_a_daemon())
        snprintf(message, message_bytes,
                 "no lttng-sessiond is running: events are recorded once one is, and a session "
                 "enables 'pyhybrid:*'");
    return 0;
}

/* --- the end of a forked child --------------------------------------------------------------------- */

#define LIBRARIES 4

/* How many bytes of destructors each has, as the loader will read it at the exit (elf(5), DT_FINI_ARRAYSZ). */
static ElfW(Dyn) * destructors[LIBRARIES];
static uint32_t n_destructors;

static void find_destructors(const char *path)
{
    struct link_map *map;
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map))
        return;
    for (ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_FINI_ARRAYSZ && n_destructors < LIBRARIES)
            destructors[n_destructors++] = entry;
}

/* They take LTTng's lock, whose holder may be gone: there are none. */
static void after_fork_child(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < n_destructors; i++) {
        void *start = (void *)((uintptr_t)destructors[i] & ~(page - 1));
        if (!mprotect(start, page, PROT_READ | PROT_WRITE)) /* it is read-only after relocation */
            destructors[i]->d_un.d_val = 0;
    }
}

extern const struct emit_sink pyhybrid_sink __attribute__((visibility("default")));

/* However it is loaded: pylttng does not open the sink. */
static __attribute__((constructor)) void mind_forks(void)
{
    Dl_info own;
    if (dladdr(&pyhybrid_sink, &own))
        find_destructors(own.dli_fname);
    find_destructors("liblttng-ust.so.1");
    find_destructors("liblttng-ust-common.so.1");
    find_destructors("liblttng-ust-tracepoint.so.1");
    pthread_atfork(NULL, NULL, after_fork_child);
}

/* --- the sink -------------------------------------------------------------------------------------- */

#define BIT_IF(event, kind) (lttng_ust_tracepoint_enabled(pyhybrid, event) ? EMIT_BIT(kind) : 0)

static uint32_t wants(void)
{
    uint32_t of_regions = lttng_ust_tracepoint_enabled(pyhybrid, region_begin) ? EMIT_BEGINS : 0;
    if (lttng_ust_tracepoint_enabled(pyhybrid, region_end))
        of_regions |= EMIT_ENDS;
    return of_regions | BIT_IF(py_start, EMIT_START) | BIT_IF(py_resume, EMIT_RESUME) |
           BIT_IF(py_throw, EMIT_THROW) | BIT_IF(py_running, EMIT_RUNNING) |
           BIT_IF(py_return, EMIT_RETURN) | BIT_IF(py_yield, EMIT_YIELD) |
           BIT_IF(py_unwind, EMIT_UNWIND) | BIT_IF(py_cut_off, EMIT_CUT_OFF);
}

static void begin(const struct emit_thread *t, const struct emit_turn *turn)
{
    (void)t;
    const struct emit_function *f = turn->function;
    if (f->is_region)
        lttng_ust_tracepoint(pyhybrid, region_begin, f);
    else if (turn->kind == EMIT_START)
        lttng_ust_tracepoint(pyhybrid, py_start, f);
    else if (turn->kind == EMIT_RESUME)
        lttng_ust_tracepoint(pyhybrid, py_resume, f);
    else if (turn->kind == EMIT_THROW)
        lttng_ust_tracepoint(pyhybrid, py_throw, f);
    else
        lttng_ust_tracepoint(pyhybrid, py_running, f);
}

static void end(const struct emit_thread *t, const struct emit_turn *turn)
{
    (void)t;
    const struct emit_function *f = turn->function;
    if (f->is_region)
        lttng_ust_tracepoint(pyhybrid, region_end, f);
    else if (turn->kind == EMIT_RETURN)
        lttng_ust_tracepoint(pyhybrid, py_return, f);
    else if (turn->kind == EMIT_YIELD)
        lttng_ust_tracepoint(pyhybrid, py_yield, f);
    else if (turn->kind == EMIT_UNWIND)
        lttng_ust_tracepoint(pyhybrid, py_unwind, f);
    else
        lttng_ust_tracepoint(pyhybrid, py_cut_off, f);
}

static void close_sink(void)
{
}

const struct emit_sink pyhybrid_sink = {
    .size = sizeof(struct emit_sink),
    .details = EMIT_BIT(EMIT_RESUME) | EMIT_BIT(EMIT_THROW),
    .open = open_sink,
    .wants = wants,
    .begin = begin,
    .end = end,
    .close = close_sink,
};

__attribute__((visibility("default"))) function_stats_emit_t pyhybrid_function_stats_emit;
__attribute__((
    visibility("default"))) function_stats_is_recorded_t pyhybrid_function_stats_is_recorded;

void pyhybrid_function_stats_emit(const struct function_stats *s)
{
    lttng_ust_tracepoint(sysmon, function_stats, s);
}

bool pyhybrid_function_stats_is_recorded(void)
{
    return lttng_ust_tracepoint_enabled(sysmon, function_stats);
}
