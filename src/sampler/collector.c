/* The collector: a thread of ours in the profiled process.
 *
 * Every 10 ms it looks for new and ended threads and gives the new ones a clock; every 50 ms (or
 * when a ring fills up) it drains the rings into the spool; what the exact half counted is written with that,
 * or as seldom as that takes a hundredth of the time: so much is lost of a process that is killed.
 * Where threads inherit their clock and none came or went of late, it looks only when it drains: each look
 * takes a processor from a thread that others may wait for, which costs a parallel program twice.
 * It may wake up 2 ms late, with an interrupt that comes anyway: one of its own would cost a virtual machine about as
 * much as what it wakes up for.
 * It needs no GIL, allocates with mmap only, and blocks all signals.  Of locks that the program could want it
 * takes the loader's alone, briefly, with loader_lock.h, and nobody waits for it with the GIL meanwhile
 * (session_lock).
 *
 * Context: everything here but collector_start and collector_stop runs in that thread; collector_drain
 * also in sampler_pause, sampler_resume and sampler_stop, collector_write in sampler_flush.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch_x86_64.h"
#include "session.h"
#include "clock.h"
#include "drain.h"
#include "libraries.h"
#include "period_correction.h"
#include "spool.h"

#define TICK_NS 10000000ull
#define SLACK_NS 2000000ul       /* more than a sample's period at the usual rate */
#define LEAST_TICK_NS 2000000ull /* whatever nudges it, others get session_lock and the processor */
#define DRAIN_NS 50000000ull
#define QUIET_AFTER_NS 100000000ull
#define SECOND_NS 1000000000ull
#define COUNTS_NS 45000000ull /* with every drain */
#define COUNTS_SHARE 100      /* they are written for a hundredth of the time at most */
#define LOOKS_MANY 4
#define EXEC_CPU_NS 10000000ull
#define EXEC_MAX_NS 2000000000ull

#define CHILD_MAX_NS 1000000000ull /* for the collector of a forked child to begin */

/* When it last did what it does now and then; what writing the counts took. */
struct done {
    uint64_t drained, counted, looked, counting_ns;
};

/* The thread's CPU time at `cpu_ns` by its clock, without what it spent while nothing counted. */
static uint64_t counted_ns(struct session *s, struct thread *t, uint64_t cpu_ns)
{
    if (!session_clock(s)->signal && atomic_load(&s->idle_since_ns))
        return 0; /* no signal shows what it spent then */
    uint64_t idle_ns = t->idle_rest_ns + counter_get(&t->counters.idle_ns);
    uint64_t ns = cpu_ns - t->base_cpu_ns + t->missed_ns + t->ticked_ns;
    return ns > idle_ns ? ns - idle_ns : 0;
}

/* Of the CPU time that counts what the thread's own clock is to stand for. */
static uint64_t own_ns(struct session *s, struct thread *t, uint64_t cpu_ns)
{
    uint64_t ns = t->ticks_only ? 0 : counted_ns(s, t, cpu_ns);
    uint64_t ticked = t->ticked_ns + counter_get(&t->young_ns);
    return ns > ticked ? ns - ticked : 0;
}

static uint64_t missed_weight(struct session *s, struct thread *t, uint64_t cpu_ns)
{
    uint64_t period = atomic_load(&s->period_ns);
    uint64_t given = thread_given_weight(t) + t->blocked_weight;
    if (s->clock == CLOCK_WALL)
        return t->unseen_ns / period;
    uint64_t spent = own_ns(s, t, cpu_ns) / period;
    return session_clock(s)->signal && spent > given ? spent - given : 0;
}

uint64_t collector_given_ns(struct session *s, struct thread *t)
{
    return (thread_given_weight(t) + t->blocked_weight + missed_weight(s, t, engine_cpu_ns(s, t))) *
           atomic_load(&s->period_ns);
}

int64_t session_unaccounted_ns(struct session *s)
{
    uint64_t ours = clock_read_ns(clock_of_thread(atomic_load(&s->collector_tid)));
    uint64_t cpu = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - s->start_cpu_ns;
    uint64_t known = ours - s->start_ours_ns + s->ended_ns;
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        known += t->has_ended ? collector_given_ns(s, t) : own_ns(s, t, engine_cpu_ns(s, t));
    return (int64_t)(cpu - known) - (int64_t)drain_ticked_ns(s->drain);
}

void collector_snapshot(struct session *s, struct thread *t)
{
    uint64_t cpu = engine_cpu_ns(s, t);
    drain_snapshot(s->drain, t, counted_ns(s, t, cpu), missed_weight(s, t, cpu));
}

uint64_t collector_signals(struct session *s, struct thread *t)
{
    uint64_t uncounted_ns = counter_get(&t->counters.idle_ns) + counter_get(&t->young_ns);
    return counter_get(&t->counters.signals) + uncounted_ns / atomic_load(&s->period_ns);
}

static void correct_period(struct session *s, struct thread *t)
{
    if (session_clock(s)->corrects_period && !s->exclude_kernel && t->has_event &&
        period_correction_learn(&t->correction, t->last_cpu_ns, collector_signals(s, t),
                                atomic_load(&s->period_ns)))
        perf_clocks_set_period(s, t);
}

static void take_kernel(void *arg, pid_t tid, uint64_t time_ns, uint64_t at, const uint64_t *chain,
                        size_t n)
{
    struct session *s = arg;
    struct thread *t = registry_find(&s->registry, tid);
    if (t && t->index && t->is_blocked && !n && atomic_load(&s->state) != SESSION_STOPPING) {
        drain_program(s->drain, t, time_ns, at);
        return;
    }
    if (!t || !t->index || !drain_kernel(s->drain, t, time_ns, chain, n))
        s->perf.kernel_lost++;
}

/* What the kernel wrote beside the signals, before the samples are drained that it belongs to. */
static void read_kernel(struct session *s)
{
    uint64_t now = clock_now_ns();
    drain_samples_until(s->drain, perf_clocks_read(s, take_kernel, s) ? now : UINT64_MAX);
}

/* Drains every ring as far as the code records that samples wait for have come; `last`: to its end.
 * Returns whether any came further. */
static bool drain_all(struct session *s, bool last)
{
    bool moved = false;
    uint32_t at = 0;
    bool changed = drain_begin(s->drain);
    if (libraries_update() || changed)
        unwind_forget_all();
    read_kernel(s);
    if (s->clock == CLOCK_CPU && session_clock(s)->signal)
        drain_set_ticks(s->drain, s->tick_ns, atomic_load(&s->period_ns),
                        atomic_load(&s->newborns.shared_ns));
    for (struct thread *t; (t = registry_next(&s->registry, &at));) {
        engine_cpu_ns(s, t); /* kept: when the thread has ended, its clock is gone */
        moved |= drain_thread(s->drain, t, last);
    }
    drain_logs(s->drain, &s->registry);
    drain_end(s->drain);
    return moved;
}

void collector_drain(struct session *s)
{
    drain_all(s, false);
}

void collector_write(struct session *s)
{
    drain_all(s, false);
    session_each(s, collector_snapshot);
    drain_exact(s->drain, &s->registry, false);
    spool_commit(s->spool);
}

static bool ring_urgent(struct session *s)
{
    uint32_t at = 0;
    bool fills = atomic_exchange(&s->ring_fills, false);
    for (struct thread *t; fills && (t = registry_next(&s->registry, &at));)
        if (thread_is_urgent(t)) {
            atomic_store(&s->ring_fills, true); /* a drain may leave it so */
            return true;
        }
    return drain_logs_urgent(s->drain);
}

static void give_way_if_it_must(struct session *s, bool thorough)
{
    const struct clock_ops *clock = session_clock(s);
    const char *why = clock->must_leave && !s->signal_taken ? clock->must_leave(s, thorough) : NULL;
    if (!why)
        return;
    drain_all(s, false);
    engine_give_way(s, why);
}

/* The program installed its own handler for our signal: it must not get ours. */
static void check_signal_owner(struct session *s)
{
    const struct clock_ops *clock = session_clock(s);
    if (clock->instead && !s->signal_taken) {
        give_way_if_it_must(s, false);
        return;
    }
    if (!clock->signal || s->signal_taken || signal_is_taken(clock->signal))
        return;
    s->signal_taken = true;
    drain_all(s, false);
    engine_close_all(s);
}

/* Is the exec that the clocks are paused for not coming any more?  A thread that is kept from running
 * may still be on its way to it. */
static bool exec_failed(const struct session *s, uint64_t now, uint64_t paused)
{
    if (now <= paused)
        return false;
    uint64_t cpu = clock_read_ns(clock_of_thread(s->exec_tid));
    return !cpu || cpu - s->exec_cpu_ns > EXEC_CPU_NS || now - paused > EXEC_MAX_NS;
}

static void settle(struct session *s, struct thread *t)
{
    drain_settle(s->drain, t);
}

/* Does somebody begin threads all the time, and not only a pool? */
static void keep_apart_if_many(struct session *s)
{
    bool is_new = s->n_threads != s->n_threads_looked;
    s->n_threads_looked = s->n_threads;
    s->n_looks_new = is_new ? s->n_looks_new + 1 : 0;
    if (s->n_looks_new >= LOOKS_MANY && session_clock(s)->is_inherited)
        session_each(s, perf_clocks_keep_apart);
}

static void snapshot_if_sampled(struct session *s, struct thread *t)
{
    if (drain_has_samples(t))
        collector_snapshot(s, t);
}

/* Of a young process little is lost, too. */
static uint64_t snapshot_after(const struct session *s, uint64_t now, uint64_t took_ns)
{
    uint64_t after = (now - s->start_ns) / 2;
    if (after > COUNTS_NS)
        after = COUNTS_NS;
    if (after < COUNTS_SHARE * took_ns)
        after = COUNTS_SHARE * took_ns;
    return after < SECOND_NS ? after : SECOND_NS;
}

static void write_counts(struct session *s, struct done *done)
{
    uint64_t began = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    session_each(s, collector_snapshot);
    drain_exact(s->drain, &s->registry, false);
    done->counting_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void tick(struct session *s, uint64_t now, struct done *done)
{
    session_pause_idle(s);
    uint64_t paused = atomic_load(&s->paused_until_ns);
    if (paused && exec_failed(s, now, paused)) {
        atomic_store(&s->paused_until_ns, 0);
        atomic_store(&s->state, SESSION_RUNNING);
        engine_enable_all(s, true);
    }
    check_signal_owner(s);
    if (libraries_update())
        unwind_forget_all();
    if (!s->signal_taken && !paused && (s->look_again || task_list_changed(&s->tasks)))
        thread_scan_in_turn(s, now);
    if (!s->signal_taken && !paused)
        names_look(s, now);
    if (s->clock == CLOCK_WALL && !paused)
        session_each(s, sleep_detection_look);
    if (now - done->drained >= DRAIN_NS || ring_urgent(s)) {
        done->drained = now;
        perf_clocks_seek_closed(s);
        drain_all(s, false);
        session_each(s, snapshot_if_sampled);
        if (!paused) {
            session_each(s, thread_look_blocked);
            session_each(s, thread_cover);
            keep_apart_if_many(s);
        }
        give_way_if_it_must(s, true);
        if (now - done->counted >= snapshot_after(s, now, done->counting_ns)) {
            done->counted = now;
            write_counts(s, done);
        }
        drain_folds(s->drain);
        spool_commit(s->spool);
        drain_merge(s->drain);
    }
    if (now - done->looked >= SECOND_NS) {
        done->looked = now;
        if (!paused)
            session_each(s, correct_period);
        s->look_again = true;
    }
}

/* After this no signal of ours but SIGTRAP is pending; one that is still under way finds SESSION_STOPPING. */
static void close_clocks(struct session *s)
{
    engine_enable_all(s, false);
    read_kernel(s);
    engine_close_all(s);
    int signal = session_clock(s)->signal;
    if (signal && signal != SIGTRAP && !s->signal_taken)
        signal_drop_pending(signal);
}

/* May it look no more often than it drains?  What cannot wait nudges it. */
static bool is_quiet(const struct session *s, uint64_t now)
{
    uint64_t paused = atomic_load(&s->paused_until_ns);
    return session_clock(s)->is_inherited && s->clock == CLOCK_CPU && !libraries_by_table &&
           !s->looks && now - s->changed_ns > QUIET_AFTER_NS && (!paused || paused == UINT64_MAX) &&
           !drain_keeps_logs(s->drain);
}

/* Until `time_ns`; until it is nudged, but for LEAST_TICK_NS. */
static void wait_until(struct session *s, uint64_t time_ns)
{
    struct timespec until = {(time_t)(time_ns / 1000000000), (long)(time_ns % 1000000000)};
    uint64_t began = clock_now_ns();
    pthread_mutex_unlock(&session_lock);
    arch_syscall6(SYS_futex, (long)&s->nudged, FUTEX_WAIT_BITSET_PRIVATE, 0, (long)&until, 0,
                  FUTEX_BITSET_MATCH_ANY);
    uint64_t waited = clock_now_ns() - began;
    if (s->looks && !atomic_load(&s->stop_wanted))
        session_look();
    if (waited < LEAST_TICK_NS && atomic_load(&s->nudged) && !atomic_load(&s->stop_wanted))
        clock_sleep_ns(LEAST_TICK_NS - waited);
    pthread_mutex_lock(&session_lock);
    if (atomic_exchange(&s->nudged, 0)) {
        s->changed_ns = clock_now_ns();
        s->look_again = true;
    }
}

/* Has the thread ended which was the process's only one when it was forked, and all others, too? */
static bool is_last(const struct session *s)
{
    char path[64], text[256];
    struct stat tasks;
    if (s->tasks.absent || stat("/proc/self/task", &tasks) || tasks.st_nlink - 2 > 2)
        return false;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && !strncmp(name_end, ") Z", 3);
}

static void *collect(void *arg)
{
    struct session *s = arg;
    uint64_t now = clock_now_ns(), next = now;
    struct done done = {now, now, now, 0};
    atomic_store(&s->collector_tid, (int)syscall(SYS_gettid));
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    pthread_mutex_lock(&session_lock);
    drain_begin(s->drain);
    drain_exact(s->drain, &s->registry, false); /* the first reading of its clock */
    thread_scan(s);
    s->start_ours_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    if (session_clock(s)->signal)
        registry_stock(&s->registry, &s->limits);
    atomic_store(&s->ready, 1);
    pthread_cond_broadcast(&s->is_ready);
    while (!atomic_load(&s->stop_wanted)) {
        now = clock_now_ns();
        uint64_t step = is_quiet(s, now) ? DRAIN_NS : TICK_NS;
        next += step;
        if (next < now)
            next = now + TICK_NS / 4;
        if (next > now + step) /* it was nudged */
            next = now + step;
        wait_until(s, next);
        tick(s, clock_now_ns(), &done);
        if (session_ends_with_threads && is_last(s))
            break; /* and the process ends with this thread */
    }
    pthread_mutex_unlock(&session_lock);
    thread_scan(s);
    session_each(s, thread_look_blocked);
    session_each(s, thread_end_ticks);
    atomic_store(&s->state, SESSION_STOPPING);
    session_each(s, names_look_now);
    session_each(s, collector_snapshot); /* while all clocks can be read */
    close_clocks(s);
    wait_for_handlers();
    newborns_close(&s->newborns);
    admit_claimed(s);
    while (drain_all(s, false))
        ;
    drain_all(s, true);
    session_each(s, sleep_detection_end);
    if (s->clock == CLOCK_CPU && session_clock(s)->signal && !atomic_load(&s->idle_since_ns))
        s->unaccounted_ns = session_unaccounted_ns(s);
    drain_begin(s->drain);
    session_each(s, settle);
    session_each(s, collector_snapshot);
    drain_exact(s->drain, &s->registry, true);
    drain_end(s->drain);
    drain_folds(s->drain);
    spool_commit(s->spool);
    return NULL;
}

static void wait_until_ready(void *session)
{
    struct session *s = session;
    pthread_mutex_lock(&session_lock);
    while (!atomic_load(&s->ready))
        pthread_cond_wait(&s->is_ready, &session_lock);
    pthread_mutex_unlock(&session_lock);
}

/* In a forked child the loader's lock may be another's, who is not here (glibc does not make it new): then the
 * collector, which holds session_lock, waits for it for ever, and is left to that. */
static int wait_in_child(struct session *s)
{
    for (uint64_t from = clock_now_ns(); !atomic_load(&s->ready); clock_sleep_ns(20000))
        if (clock_now_ns() - from > CHILD_MAX_NS) {
            atomic_store(&s->stop_wanted, 1);
            session_forget_in_child();
            return -EDEADLK;
        }
    return 0;
}

int collector_start(struct session *s)
{
    pthread_cond_init(&s->is_ready, NULL);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&s->collector, NULL, collect, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return -error;
    pthread_setname_np(s->collector, "pyhybrid");
    if (s->in_forked_child)
        return wait_in_child(s);
    session_block(wait_until_ready, s);
    return 0;
}

void collector_stop(struct session *s)
{
    atomic_store(&s->stop_wanted, 1);
    session_nudge(s);
    pthread_join(s->collector, NULL);
    pthread_cond_destroy(&s->is_ready);
}
