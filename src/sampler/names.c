#include "names.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"
#include "spool.h"

#define FIRST_LOOK_NS 10000000ull
#define LAST_LOOK_NS 8000000000ull

static void read_name(struct session *s, struct thread *t)
{
    char path[64], name[sizeof t->comm] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", t->tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, name, sizeof name);
    close(fd);
    if (n < 1)
        return;
    name[n - 1] = 0; /* the end of the line */
    if (!strcmp(name, t->comm))
        return;
    memcpy(t->comm, name, sizeof name);
    struct spool_thread_name head = {t->index, NAME_COMM};
    spool_append(s->spool, SPOOL_THREAD_NAME, &head, sizeof head, name, (uint32_t)n - 1);
}

/* (glibc's fnmatch takes no lock, and allocates only for more than 255 characters.) */
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
    return !*s->wall_threads || atomic_load(&s->calibrating) || matches(s, t->comm) ||
           matches_threading_name(s, t->tid);
}

void names_look_now(struct session *s, struct thread *t)
{
    read_name(s, t);
    if (*s->wall_threads && !t->has_timer)
        engine_open(s, t);
}

void names_look(struct session *s, struct thread *t)
{
    uint64_t now = clock_now_ns();
    if (now < t->look_ns)
        return;
    uint64_t wait = t->look_wait_ns ? 2 * t->look_wait_ns : FIRST_LOOK_NS;
    t->look_wait_ns = wait < LAST_LOOK_NS ? wait : LAST_LOOK_NS;
    t->look_ns = now + t->look_wait_ns;
    names_look_now(s, t);
}

void names_settle(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        if (!names_choose(s, t))
            engine_close(s, t);
}
