/* What the program does while a session runs, and asks of it: it names its threads, forks, execs, spawns, frees
 * codes, pauses. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"
#include "spool.h"

#define EXEC_PAUSE_NS 50000000ull
#define END_MAX_NS 5000000000ull

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

static void on_thread_end(void *unused)
{
    (void)unused;
    atomic_fetch_add(&handlers_running, 1); /* the session stays meanwhile */
    struct session *s = atomic_load(&session_current);
    if (s)
        newborn_end(s, (pid_t)syscall(SYS_gettid));
    atomic_fetch_sub(&handlers_running, 1);
}

static void make_key(void)
{
    pthread_key_create(&thread_key, on_thread_end);
}

/* The collector may have seen the thread before it ran: that gave it a clock, unless it inherited one. */
static bool needs_ticks(struct session *s, pid_t tid)
{
    struct thread *t = registry_find(&s->registry, tid);
    return !t || (session_clock(s)->is_inherited && t->is_young && !t->n_own &&
                  !newborn_has(&s->newborns, tid));
}

void sampler_thread_begins(void)
{
    pthread_once(&thread_key_once, make_key);
    atomic_fetch_add(&handlers_running, 1);
    struct session *s = atomic_load(&session_current);
    pid_t tid = (pid_t)syscall(SYS_gettid);
    if (s && needs_ticks(s, tid) && !*s->wall_threads) {
        pthread_setspecific(thread_key, &thread_key);
        newborn_begin(s, tid, true);
    }
    atomic_fetch_sub(&handlers_running, 1);
}

struct thread_name {
    int tid;
    const char *name;
    uint32_t length;
};

static void name_thread(struct session *s, const struct thread_name *it)
{
    struct thread *t = registry_find(&s->registry, it->tid);
    if (t && t->index)
        names_record(s, t, it->name, it->length);
    pthread_mutex_unlock(&session_lock);
}

static void wait_and_name_thread(void *arg)
{
    struct session *s = session_lock_running();
    if (s)
        name_thread(s, arg);
}

/* With the GIL if possible: it is done for hundreds of threads, and each change of the GIL may take 5 ms. */
void sampler_name_thread(int tid, const char *name, uint32_t length)
{
    struct thread_name it = {tid, name, length};
    struct session *s = session_get();
    if (!s)
        return;
    if (pthread_mutex_trylock(&session_lock))
        session_block(wait_and_name_thread, &it);
    else if (atomic_load(&s->stop_wanted))
        pthread_mutex_unlock(&session_lock);
    else
        name_thread(s, &it);
}

void sampler_forget_code(uint64_t code)
{
    struct session *s = session_get();
    if (s)
        codes_forget(s->codes, code);
}

bool session_ends_with_threads;
static bool forks_in_thread;

void sampler_before_fork(void)
{
    handler_forks(true);
    forks_in_thread =
        arch_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0) != arch_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

void sampler_after_fork_parent(bool counts)
{
    handler_forks(false);
    struct session *s = session_get();
    if (s && counts)
        atomic_fetch_add(&s->n_forked, 1);
}

static bool parent_waits; /* for its disk, as this process was forked */

bool sampler_parent_waits(void)
{
    return parent_waits;
}

/* The child is not profiled: it has the parent's descriptors, handler and memory, but neither its
 * clocks nor its collector. */
void sampler_after_fork_child(void)
{
    handler_forks(false);
    session_ends_with_threads |= forks_in_thread;
    struct session *s = session_forget_in_child();
    if (!s)
        return;
    sampler_found_in_parent(!s->signal_taken && !s->spare_signal && !s->trap_lost);
    atomic_store(&session_current, NULL);
    atomic_store(&handlers_running, 0);
    if (signal_is_taken(SIGPROF))
        signal_give_back(SIGPROF);
    if (s->spare_signal && signal_is_taken(s->spare_signal))
        signal_give_back(s->spare_signal);
    if (signal_is_taken(SIGTRAP))
        signal_give_back(SIGTRAP);
    perf_clocks_abandon(s);
    trap_guards_abandon(&s->guards);
    task_list_close(&s->tasks);
    own_fd_close(&s->status);
    parent_waits = spool_waits(s->spool);
    spool_abandon(s->spool);
}

/* The session, locked; NULL once there is none, or where it takes too long to end. */
static struct session *lock_session_or_its_end(void)
{
    for (uint64_t from = clock_now_ns(); clock_now_ns() - from < END_MAX_NS;
         clock_sleep_ns(1000000)) {
        pthread_mutex_lock(&session_lock);
        struct session *s = session_get();
        if (s && !atomic_load(&s->stop_wanted))
            return s;
        pthread_mutex_unlock(&session_lock);
        if (!s)
            return NULL;
    }
    return NULL;
}

static void prepare_exec(void *unused)
{
    (void)unused;
    struct session *s = lock_session_or_its_end();
    if (!s)
        return;
    s->exec_tid = (pid_t)syscall(SYS_gettid);
    s->exec_cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    s->exec_until_ns = clock_now_ns() + EXEC_PAUSE_NS;
    if (atomic_load(&s->paused_until_ns) != UINT64_MAX)
        session_pause_until(s, s->exec_until_ns);
    int signal = session_clock(s)->signal;
    if (signal)
        signal_drop_pending(signal); /* this thread's, if it blocks them */
    spool_flush(s->spool);
    pthread_mutex_unlock(&session_lock);
}

/* A signal still pending at exec would kill the new program: its handler is gone by then. */
void sampler_before_exec(void)
{
    if (session_get())
        session_block(prepare_exec, NULL);
}

typedef void session_deed(struct session *s);

static void do_locked(void *deed)
{
    struct session *s = session_lock_running();
    if (!s)
        return;
    (*(session_deed **)deed)(s);
    pthread_mutex_unlock(&session_lock);
}

void sampler_pause(void)
{
    session_deed *deed = session_pause;
    if (session_get())
        session_block(do_locked, &deed);
}

void sampler_flush(void)
{
    session_deed *deed = collector_write;
    if (session_get())
        session_block(do_locked, &deed);
}

void sampler_resume(void)
{
    session_deed *deed = session_resume;
    if (session_get())
        session_block(do_locked, &deed);
}

void sampler_idle(void)
{
    struct session *s = session_get();
    if (!s)
        return;
    if (session_clock(s)->is_tick_bound && !atomic_load(&s->idle_tid)) {
        s->idle_tid = (pid_t)syscall(SYS_gettid);
        s->idle_cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    atomic_store(&s->idle_since_ns, clock_now_ns());
    atomic_store(&s->idle, true);
    if (s->clock == CLOCK_WALL)
        sampler_pause();
}

int sampler_active(void)
{
    struct session *s = session_get();
    if (!s)
        return 0;
    atomic_store(&s->idle, false);
    if (atomic_load(&s->paused_until_ns) != UINT64_MAX)
        return 0;
    sampler_resume();
    return 1;
}

void sampler_spawned(void)
{
    struct session *s = session_get();
    if (s)
        atomic_fetch_add(&s->n_spawned, 1);
}
