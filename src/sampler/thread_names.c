/* thread_names.c - threads' names as the kernel has them, and which threads are sampled for their name.
 *
 * A thread gets its names after it has begun, so they are looked at again and again, ever more seldom.  By
 * wall-clock time only some threads may be wanted, chosen by patterns of the shell: by the kernel's name, or
 * by the one that `threading` has, which the exact half learns with a thread's first event.
 *
 * Context: the collector, or under the session's lock.
 */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "drain.h"
#include "spool.h"

#define FIRST_LOOK_NS 10000000ull
#define LAST_LOOK_NS 1000000000ull /* where threads are chosen */
#define LOOKS_AT_ONCE 32           /* each takes some 10 us */

int names_prepare(struct session *s, const struct sampler_options *options)
{
    s->measuring_tid = (pid_t)syscall(SYS_gettid);
    if (options->clock != CLOCK_WALL || !options->wall_threads_length)
        return 0;
    if (options->wall_threads_length >= sizeof s->wall_threads)
        return -EINVAL;
    memcpy(s->wall_threads, options->wall_threads, options->wall_threads_length);
    /* The first one in a locale may load its conversions, with a lock; here, not in the collector. */
    (void)fnmatch("*", "", 0);
    return 0;
}

static void write_name(struct session *s, const struct thread *t, enum thread_name_source source,
                       const char *name, size_t length)
{
    if (!drain_has_own_row(t)) /* the first record has it; several threads have no name in common */
        return;
    struct spool_thread_name head = {t->index, source};
    spool_append(s->spool, SPOOL_THREAD_NAME, &head, sizeof head, name, (uint32_t)length);
}

static void read_name(struct session *s, struct thread *t)
{
    char path[64], name[sizeof t->comm] = "";
    struct own_fd file = {.fd = -1};
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", t->listed);
    ssize_t n = own_fd_keep(&file, open(path, O_RDONLY | O_CLOEXEC), s->fd_floor);
    if (!n && own_fd_is(&file))
        n = read(file.fd, name, sizeof name);
    own_fd_close(&file);
    if (n < 1)
        return;
    name[n - 1] = 0; /* the end of the line */
    if (!strcmp(name, t->comm))
        return;
    memcpy(t->comm, name, sizeof name);
    write_name(s, t, NAME_COMM, name, (size_t)n - 1);
}

/* (glibc's fnmatch allocates only for more than 255 characters.) */
static bool matches(const struct session *s, const char *name)
{
    for (const char *pattern = s->wall_threads; *pattern; pattern += strlen(pattern) + 1)
        if (*name && !fnmatch(pattern, name, 0))
            return true;
    return false;
}

static bool matches_threading_name(const struct session *s, pid_t tid)
{
    if (tid == getpid() && matches(s, "MainThread"))
        return true;
    /* Only the collector takes threads out of the list. */
    const struct exact_thread *e = s->exact ? atomic_load(&s->exact->threads) : NULL;
    while (e && (e->tid != tid || atomic_load(&e->ended)))
        e = e->next;
    return e && matches(s, e->name);
}

bool names_choose(struct session *s, const struct thread *t)
{
    if (!*s->wall_threads || (atomic_load(&s->calibrating) && t->tid == s->measuring_tid))
        return true;
    return matches(s, t->comm) || matches(s, t->name) || matches_threading_name(s, t->tid);
}

void names_record(struct session *s, struct thread *t, const char *name, size_t length)
{
    write_name(s, t, NAME_THREADING, name, length);
    if (length >= sizeof t->name)
        length = sizeof t->name - 1;
    memcpy(t->name, name, length);
    t->name[length] = 0;
    names_look_now(s, t);
}

void names_look_now(struct session *s, struct thread *t)
{
    read_name(s, t);
    if (*s->wall_threads && !t->has_timer)
        engine_open(s, t);
}

/* Returns whether it was time to. */
static bool look(struct session *s, struct thread *t, uint64_t now)
{
    if (now < t->look_ns)
        return false;
    bool first = !t->look_wait_ns; /* its name has just been read */
    t->look_wait_ns = first ? FIRST_LOOK_NS : 2 * t->look_wait_ns;
    if (*s->wall_threads && t->look_wait_ns > LAST_LOOK_NS)
        t->look_wait_ns = LAST_LOOK_NS;
    t->look_ns = now + t->look_wait_ns;
    if (!first)
        names_look_now(s, t);
    return !first;
}

void names_look(struct session *s, uint64_t now)
{
    if (now < s->look_ns)
        return;
    uint32_t at = 0, n = 0;
    s->look_ns = UINT64_MAX;
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        n += n < LOOKS_AT_ONCE && look(s, t, now);
        if (t->look_ns < s->look_ns)
            s->look_ns = t->look_ns;
    }
}

void names_settle(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        if (!names_choose(s, t))
            engine_close(s, t);
        else if (*s->wall_threads && !t->has_timer)
            engine_open(s, t);
}
