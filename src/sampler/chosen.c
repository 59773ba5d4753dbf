#include "chosen.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"

#define FIRST_LOOK_NS 10000000ull
#define LAST_LOOK_NS 1000000000ull

/* (glibc's fnmatch takes no lock, and allocates only for more than 255 characters.) */
static bool matches(const struct session *s, const char *name)
{
    for (const char *pattern = s->wall_threads; *pattern; pattern += strlen(pattern) + 1)
        if (*name && !fnmatch(pattern, name, 0))
            return true;
    return false;
}

static bool matches_kernel_name(const struct session *s, pid_t tid)
{
    char path[32], name[32] = "";
    snprintf(path, sizeof path, "%d/comm", tid);
    int fd = openat(s->tasks.fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, name, sizeof name - 1);
    close(fd);
    name[n > 0 ? n - 1 : 0] = 0; /* without the end of the line */
    return matches(s, name);
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

bool chosen(struct session *s, struct thread *t)
{
    if (!*s->wall_threads || atomic_load(&s->calibrating) || matches_kernel_name(s, t->tid) ||
        matches_threading_name(s, t->tid))
        return true;
    uint64_t wait = t->look_wait_ns ? 2 * t->look_wait_ns : FIRST_LOOK_NS;
    t->look_wait_ns = wait < LAST_LOOK_NS ? wait : LAST_LOOK_NS;
    t->look_ns = clock_now_ns() + t->look_wait_ns;
    return false;
}

void chosen_look(struct session *s, struct thread *t)
{
    if (t->look_wait_ns && clock_now_ns() >= t->look_ns && chosen(s, t)) {
        t->look_wait_ns = 0;
        engine_open(s, t);
    }
}

void chosen_settle(struct session *s)
{
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        if (!chosen(s, t))
            engine_close(s, t);
}
