/* sampler.h - the sampled half: a clock on every thread, stacks by signal.
 *
 * sampler_start opens a clock on each thread of the process, now and later; each tick is a SIGPROF
 * (or SIGTRAP) to the thread it counts, whose handler records its Python and native stack into a ring; a
 * collector thread drains the rings into the spool.
 *
 * Context: start, stop and the fork and exec hooks run in Python threads, with the GIL.  All or nothing: a failed start
 * leaves nothing.
 */
#ifndef PYH_SAMPLER_H
#define PYH_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sampler_clock { CLOCK_CPU, CLOCK_WALL };

enum sampler_engine {
    ENGINE_AUTO,
    ENGINE_PERF_EVENT, /* task-clock event per thread */
    ENGINE_TIMER,      /* CPU timer per thread, weighted by overrun */
    ENGINE_MONOTONIC,  /* wall clock: monotonic timer per thread */
    ENGINE_NONE,       /* no samples: the session serves the exact half alone */
    ENGINE_SIGTRAP,    /* task-clock events with SIGTRAP, inherited by new threads */
};

#define SAMPLER_PATTERNS_MAX 1024

struct sampler_options {
    int spool_fd; /* duplicated; the caller keeps its own */
    uint64_t period_ns;
    enum sampler_clock clock;
    enum sampler_engine engine;
    int kernel_frames;   /* 1: yes; 0: where they cost next to nothing; -1: no */
    uint32_t max_frames; /* of a recorded stack */
    uint32_t ring_bytes; /* 0: by the rate */
    uint32_t max_nodes;
    uint64_t max_timeline_bytes; /* of samples that keep their times; 0: all do */
    int exact;                   /* with trees for the exact half */
    int looks;       /* the function of sampler_set_look is called, as often as stated there */
    int log_events;  /* with every begin and end */
    int log_windows; /* with those while they are switched on (turns_log) */
    uint64_t keep_events_ns; /* of those, only the last ones; 0: all */
    /* By wall-clock time: only threads with such a name (thread_names.c), patterns of the shell, a 0 byte after
     * each; NULL: all.  With its length, less than SAMPLER_PATTERNS_MAX. */
    const char *wall_threads;
    size_t wall_threads_length;
    uint64_t known_period_ns,
        known_cost_ns; /* 0: they are measured; they are a parent's, of the same machine */
    int inherits; /* engine, rate and costs are those that the last start of this process has found, or of the
                     one that forked it */
    int module_table; /* modules by our own table (libraries.h), whatever the C library can do */
    const char *backend_path; /* the libunwind backend's shared object, or NULL */
};

struct sampler_info {
    enum sampler_engine engine;
    const char *engine_reason;    /* why not a better one; static text */
    const char *no_kernel_frames; /* why; NULL: there are */
    const char *unlisted;         /* which threads no list has; NULL: they are all listed */
    uint64_t period_ns;           /* in effect: longer if the rate asked costs too much */
    uint64_t cost_ns; /* of one sample, interrupt and all, measured at start; 0: no signal came */
    uint64_t start_ns;
    char error[200]; /* what went wrong */
};

struct sampler_result {
    uint64_t end_ns, process_cpu_ns; /* CPU time, without pauses; 0: not known (sampler_idle) */
    uint32_t n_forked, n_spawned;
    uint64_t n_not_ready; /* signals to threads that had no record: never seen so far */
    int signal_taken;     /* the program took SIGPROF, sampling ended early */
    int spare_signal;     /* it did, and samples came by this signal from there on; 0: it did not */
    const char *trap_lost; /* why sigtrap gave way to SIGPROF; NULL: it did not */
    int write_error;       /* -errno of the spool's first failed write, or 0 */
};

/* Starts a session, paused until sampler_resume().  Returns 0, or -errno with info->error.  The caller ensures that no
 * other session runs or starts, since other threads get the GIL meanwhile. */
int sampler_start(struct sampler_options *options, struct sampler_info *info);

/* Sets how a function that may block is called: without the GIL, for as long as it takes.  Call it before the first
 * start; unset, the function is simply called.  A thread may have to wait here for the collector, that for the
 * loader's lock, and the holder of that lock for the GIL. */
typedef void sampler_blocking(void (*what)(void *), void *arg);
void sampler_set_blocking(sampler_blocking *call);

/* The collector calls `look` every 10 ms, with no lock held.  Set it before the first start; it stays. */
void sampler_set_look(void (*look)(void));

/* The function that is asked for names once all samples are in; it may be NULL. */
struct function_names;
typedef void sampler_namer(const struct function_names *to);

/* Leaves nothing behind: handler, timers, descriptors, threads and mappings are as before; only the
 * handler of SIGTRAP stays where threads live to which one may still come (sigtrap.h).
 * -EINVAL if not running. */
int sampler_stop(sampler_namer *namer, struct sampler_result *result);

int sampler_running(void);

/* They stop the samples and resume them.  What a thread does meanwhile counts nowhere; pauses do not nest. */
void sampler_pause(void);
void sampler_resume(void);

/* When it returns, all that was measured is in the spool. */
void sampler_flush(void);

/* They stop and resume the counting as sampler_pause and sampler_resume do, at next to no cost: what signals still
 * stand for is left out, and after a while the clocks are paused.  (By wall-clock time: at once.)  sampler_active
 * returns whether it had to wake them up. */
void sampler_idle(void);
int sampler_active(void);

/* Returns the running session's trees for the exact half, or NULL. */
struct exact *sampler_exact(void);

/* Returns the session's number, or 0 if none runs. */
uint32_t sampler_generation(void);

/* Adds records of the front: SPOOL_META, SPOOL_THREAD_NAME. */
int sampler_write(uint32_t type, const void *head, uint32_t head_length, const void *body,
                  uint32_t body_length);

/* The same for records of the program's calls, most of them made with the GIL: it does not wait for the disk
 * (spool_post). */
int sampler_post(uint32_t type, const void *head, uint32_t head_length, const void *body,
                 uint32_t body_length);

/* `threading` calls the thread `name`, of `length` bytes: the name is recorded in the spool, and by wall-clock time the
 * thread may be chosen for it. */
void sampler_name_thread(int tid, const char *name, uint32_t length);

/* The calling thread runs its first Python function: it has a clock from now on, if it began while the session ran
 * (clocks/newborn.h).  It may be called on any thread and takes a few microseconds. */
void sampler_thread_begins(void);

/* The hooks of CPython's code watcher, of fork (pthread_atfork; it `counts` unless it is part of what counts as a
 * spawn), of exec (audit hook) and of spawn (spawns.c). */
void sampler_forget_code(uint64_t code);
void sampler_before_fork(void);
void sampler_after_fork_parent(bool counts);
void sampler_after_fork_child(void);
/* Returns whether the parent of this forked child waited for a disk that did not answer, as it forked. */
bool sampler_parent_waits(void);
void sampler_before_exec(void);
void sampler_spawned(void);

#endif
