/* thread_registration.c - threads of the program become threads of the session, each one once: whoever meets it first, the list
 * of threads, a signal (thread.h) or an event (call_tree.h).
 *
 * Context: the collector, or under the session's lock.
 */
#include "session.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "drain.h"
#include "spool.h"

bool thread_lives(pid_t tid)
{
    return !syscall(SYS_tgkill, getpid(), tid, 0);
}

void share_among_ticks(struct thread *t, uint64_t cpu_ns)
{
    uint64_t n = counter_get(&t->n_ticks);
    t->tick_ns = n ? cpu_ns / n : 0;
    *(n ? &t->ticked_ns : &t->missed_ns) = cpu_ns;
}

bool admit(struct session *s, pid_t tid, pid_t listed)
{
    uint64_t now = clock_now_ns();
    struct thread *t = registry_add(&s->registry, tid, s->n_threads + 1, &s->limits);
    if (t)
        t->listed = listed;
    if (!t || drain_add_thread(t, now)) {
        if (t)
            registry_unnumber(&s->registry, t);
        return false;
    }
    s->n_threads++;
    s->changed_ns = now;
    s->look_ns = 0; /* at once */
    t->seen = 1;    /* it may have begun after this look at the list of threads */
    bool young = t->start_ns + 20000000 > s->counted_from_ns && tid != getpid();
    /* A thread that a covered one created is covered from its begin; `cover` finds others. */
    bool covered = session_clock(s)->is_inherited && atomic_load(&s->ready) &&
                   (young || t->claimed || s->skips_new);
    if (!t->claimed) /* else its handler knows, and may have found it old */
        t->is_young = young && !s->skips_new;
    if (covered && !s->skips_new)
        return true;
    bool ticked = young && !s->skips_new && newborn_has(&s->newborns, tid);
    if (!ticked || session_clock(s)->is_tick_bound)
        t->base_cpu_ns = t->cpu_ns = t->covered_cpu_ns = clock_read_ns(clock_of_thread(tid));
    t->paused_cpu_ns = t->looked_cpu_ns = t->base_cpu_ns;
    if (young && !s->skips_new)
        share_among_ticks(t, t->base_cpu_ns);
    if (covered)
        return true;
    if (session_clock(s)->is_inherited) /* the event's count is that of all who inherit it */
        t->last_cpu_ns = t->base_cpu_ns;
    int error = engine_open(s, t);
    /* One that has ended is EINVAL to timer_create; a main thread that has is listed as long as others live. */
    if (error && error != -ESRCH && !s->first_error && thread_lives(tid))
        s->first_error = error;
    if (t->ticks_only)
        t->base_cpu_ns = t->ticked_ns = t->missed_ns = t->tick_ns = 0;
    return true;
}

void admit_claimed(struct session *s)
{
    struct thread *refused = NULL;
    for (struct thread *t; (t = registry_take_claimed(&s->registry));) {
        s->look_again = true; /* it may have ended before the list was read */
        if (admit(s, t->tid, task_list_number(&s->tasks, t->tid)))
            continue;
        t->next_claimed = refused;
        refused = t;
    }
    for (struct thread *t = refused, *next; t; t = next) {
        next = t->next_claimed;
        registry_keep_claimed(&s->registry, t);
    }
}

/* Records a thread that no sampler will see: it has ended, or sampling has. */
static uint32_t record_unseen(struct session *s, struct exact_thread *e)
{
    struct spool_thread record = {.index = ++s->n_threads,
                                  .tid = (uint32_t)e->tid,
                                  .start_ns = e->first_ns,
                                  .first_seen_ns = e->first_ns};
    memcpy(record.comm, e->comm, sizeof record.comm);
    return drain_row_of_unseen(s->drain, &record, e->name, &e->fold);
}

/* It may begin in a pause, or just before. */
static void admit_late(struct session *s, pid_t tid)
{
    bool skips_new = s->skips_new;
    s->skips_new |= atomic_load(&s->paused_until_ns) != 0;
    admit(s, tid, task_list_number(&s->tasks, tid));
    s->skips_new = skips_new;
    s->look_again = true; /* it may end before it is in a list */
}

uint32_t admit_exact(void *session, struct exact_thread *e)
{
    struct session *s = session;
    struct thread *t = registry_find(&s->registry, e->tid);
    bool unseen = t ? !t->index : !atomic_load(&e->ended);
    if (unseen && atomic_load(&s->state) != SESSION_STOPPING) {
        admit_late(s, e->tid);
        t = registry_find(&s->registry, e->tid);
    }
    if (!t || !t->index || t->has_exact)
        return record_unseen(s, e);
    t->has_exact = true;
    return drain_row(s->drain, t, e->name, &e->fold);
}
