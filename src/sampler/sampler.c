#include "sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"
#include "drain.h"
#include "function_names.h"
#include "libraries.h"
#include "map.h"
#include "memread.h"
#include "records.h"
#include "spool.h"

static uint32_t generations;

/* What the last start has found out: it holds in a forked child, too. */
static struct {
    pid_t pid; /* whose start it was */
    struct py_layout layout;
    uint64_t main_stack_high, period_ns, tick_ns;
    struct sampler_info info;
    struct engine_choice engine; /* clock is NULL: nothing is known */
} found;

void (*session_look)(void);

void sampler_set_look(void (*look)(void))
{
    session_look = look;
}

static int fail(struct sampler_info *info, int error, const char *what)
{
    snprintf(info->error, sizeof info->error, "%s: %s", what, strerror(-error));
    return error;
}

static uint64_t find_main_stack_high(void)
{
    char line[512];
    uint64_t low, high = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &low, &high) == 2)
            break;
    if (f)
        fclose(f);
    if (high)
        return high;
    /* Its last words are the program's name and a pointer's worth of zeros (fs/exec.c, fs/binfmt_elf.c). */
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name ? ((uint64_t)name + strlen(name) + 1 + sizeof(void *) + 4095) & ~4095ull : 0;
}

/* About the stacks of a tenth of a second, twice over, but at least one of any size wherever the ring's end is. */
static struct thread_limits thread_limits(const struct sampler_options *o, uint64_t period_ns)
{
    size_t longest = sizeof(struct sample_record) +
                     o->max_frames * (sizeof(uint64_t) + sizeof(struct caller_note));
    size_t least = RING_SMALL, size;
    if (o->ring_bytes)
        return (struct thread_limits){o->max_frames, o->ring_bytes,
                                      least < o->ring_bytes ? least : o->ring_bytes};
    while (least < 2 * longest + CODE_RECORD_MAX)
        least *= 2;
    size = least;
    while (size < (4u << 20) && size < 200000000ull / period_ns * 1024)
        size *= 2;
    return (struct thread_limits){o->max_frames, size, least};
}

static int calibrate(struct session *s, struct sampler_info *info)
{
    struct unwind u = {0};
    u.stack_low = (uint64_t)__builtin_frame_address(0) & ~4095ull;
    uint64_t self = arch_thread_pointer();
    u.stack_high = u.stack_low > self ? s->main_stack_high : self;
    size_t pages = (u.stack_high - u.stack_low) / 4096;
    const char *wrong = "the thread's stack could not be found";
    if (pages < 1 << 20 && memread_pages(u.stack_low, pages) == pages)
        wrong = pyframe_calibrate(&u, &s->layout);
    if (!wrong)
        return 0;
    snprintf(info->error, sizeof info->error, "%s", wrong);
    return -ENOEXEC;
}

static int load_backend(struct session *s, const char *path, struct sampler_info *info)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        s->backend = (unwind_backend)dlsym(library, "pyh_unwind_backend");
    if (s->backend)
        return 0;
    snprintf(info->error, sizeof info->error, "the libunwind backend cannot be loaded: %s",
             dlerror());
    return -ENOENT;
}

/* What of the threads is not known without a list of them. */
static const char *unlisted(const struct session *s)
{
    bool inherits = session_clock(s)->is_inherited;
    if (s->exact)
        return inherits ? "threads that had begun before, and run no Python function, are not seen"
                        : "threads that run no Python function are not seen";
    return inherits ? "threads that had begun before are not seen"
                    : "threads that had begun before, or not by `threading`, are not seen";
}

static void update_table(void *unused)
{
    (void)unused;
    libraries_update();
}

static int prepare(struct session *s, struct sampler_options *o, struct sampler_info *info)
{
    struct rlimit files;
    int error = memread_init();
    if (error)
        return fail(info, error, "guarded reads of memory");
    libraries_use_table(o->module_table);
    if (!o->inherits) /* the parent's holds, and the collector renews it */
        session_block(update_table, NULL);
    s->in_forked_child = o->inherits && found.pid != getpid();
    s->main_stack_high = o->inherits ? found.main_stack_high : find_main_stack_high();
    s->layout = found.layout;
    if (!o->inherits && (error = calibrate(s, info)))
        return error;
    if (o->backend_path && (error = load_backend(s, o->backend_path, info)))
        return error;
    getrlimit(RLIMIT_NOFILE, &files);
    rlim_t limit = files.rlim_cur > 65536 ? 65536 : files.rlim_cur;
    s->fd_floor = (int)(limit / 2);
    if ((error = perf_clocks_init(&s->perf, (int)(limit / 4))))
        return fail(info, error, "memory");
    if (o->inherits) {
        *info = found.info;
        error = engine_inherit(s, &found.engine);
    } else {
        error = engine_probe(s, o, info);
    }
    if (error) {
        const char *why = *info->engine_reason ? info->engine_reason : strerror(-error);
        snprintf(info->error, sizeof info->error, "engine: %s", why);
        return error;
    }
    s->clock = o->clock;
    s->newborns.of = map_memory(NEWBORN_MAX * sizeof *s->newborns.of);
    s->tick_ns = o->inherits ? found.tick_ns : timers_tick_ns();
    s->looks = o->looks;
    if ((error = names_prepare(s, o)))
        return fail(info, error, "the names of threads");
    s->limits = thread_limits(o, s->asked_period_ns);
    s->generation = ++generations;
    atomic_store(&s->period_ns, o->period_ns);
    if ((error = registry_init(&s->registry)))
        return fail(info, error, "memory");
    if (!(s->codes = codes_new()))
        return fail(info, -ENOMEM, "memory");
    if ((error = spool_open(&s->spool, o->spool_fd, s->fd_floor)))
        return fail(info, error, "the spool");
    if (!(s->drain = drain_new(s->spool, o->max_nodes, o->max_timeline_bytes)))
        return fail(info, -ENOMEM, "memory");
    if (o->exact) {
        s->exact = exact_new(s->codes, &s->layout, s->main_stack_high, o->max_nodes);
        if (!s->exact)
            return fail(info, -ENOMEM, "memory");
        s->exact->turns = o->log_events ? TURNS_LOGGED : 0;
        s->exact->logs_by_window = o->log_windows && !o->log_events;
        s->exact->logs = o->log_events || o->log_windows;
        s->exact->names_threads = *s->wall_threads;
        if (drain_set_exact(s->drain, s->exact, o->keep_events_ns, admit_exact, s))
            return fail(info, -ENOMEM, "memory");
    }
    error = task_list_open(&s->tasks, s->fd_floor);
    info->unlisted = s->tasks.absent ? unlisted(s) : NULL;
    if (!error && session_clock(s)->signal == SIGTRAP && !s->tasks.absent)
        error =
            own_fd_keep(&s->status, open("/proc/self/status", O_RDONLY | O_CLOEXEC), s->fd_floor);
    return error ? fail(info, error, "/proc/self") : 0;
}

static void dispose(struct session *s)
{
    task_list_close(&s->tasks);
    own_fd_close(&s->status);
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(&s->registry, &at));)
        drain_remove_thread(s->drain, t);
    registry_free(&s->registry);
    perf_clocks_free(&s->perf);
    trap_guards_free(&s->guards);
    map_memory_free(s->newborns.of, NEWBORN_MAX * sizeof *s->newborns.of);
    drain_free(s->drain);
    exact_free(s->exact);
    spool_close(s->spool);
    codes_free(s->codes);
    map_memory_free(s, sizeof *s);
}

/* A SIGTRAP may still come to threads that are in a system call: its handler stays with them. */
static void give_back_signals(struct session *s)
{
    int signal = session_clock(s)->signal;
    if (signal && signal != SIGTRAP && !s->signal_taken && signal_is_taken(signal))
        signal_give_back(signal);
    if (!s->holds_trap || !signal_is_taken(SIGTRAP))
        return;
    if (sigtrap_others_live(atomic_load(&s->collector_tid)))
        signal_drop_pending(SIGTRAP); /* of those that block it, which may exec later */
    else
        signal_give_back(SIGTRAP);
}

static void stop_collector(void *session)
{
    collector_stop(session);
}

int sampler_start(struct sampler_options *o, struct sampler_info *info)
{
    memset(info, 0, sizeof *info);
    struct session *s = map_memory(sizeof *s);
    if (!s)
        return fail(info, -ENOMEM, "memory");
    s->tasks.folder.fd = s->tasks.last_pid.fd = s->status.fd = -1;
    o->inherits = o->inherits && found.engine.clock;
    uint64_t wanted = s->asked_period_ns = o->period_ns;
    bool is_known = o->inherits || o->known_period_ns;
    bool samples = o->engine != ENGINE_NONE, measure = samples && !is_known;
    if (measure)
        o->period_ns = COST_PERIOD_NS;
    else if (is_known)
        o->period_ns = o->inherits ? found.period_ns : o->known_period_ns;
    int error = prepare(s, o, info);
    o->period_ns = wanted;
    if (error) {
        dispose(s);
        return error;
    }
    int signal = session_clock(s)->signal;
    if (signal)
        signal_take(signal);
    s->holds_trap = signal == SIGTRAP;
    s->start_ns = s->counted_from_ns = clock_now_ns();
    s->start_cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
    atomic_store(&s->calibrating, samples);
    atomic_store(&s->state, SESSION_RUNNING);
    atomic_store(&session_current, s);
    session_set(s);
    error = collector_start(s);
    if (!error && s->first_error) {
        session_block(stop_collector, s);
        error = s->first_error;
    }
    if (error) {
        atomic_store(&session_current, NULL);
        wait_for_handlers();
        give_back_signals(s);
        session_set(NULL);
        if (error != -EDEADLK) /* the collector is still there */
            dispose(s);
        return fail(info, error, "the sampling clock");
    }
    if (measure)
        cost_limit_rate(s, wanted, info);
    else if (samples)
        cost_is_known(s);
    else
        sampler_pause();
    if (samples && !measure && !o->inherits)
        info->cost_ns = o->known_cost_ns;
    info->period_ns = atomic_load(&s->period_ns);
    info->start_ns = s->start_ns;
    found.pid = getpid();
    found.layout = s->layout;
    found.main_stack_high = s->main_stack_high;
    found.period_ns = info->period_ns;
    found.tick_ns = s->tick_ns;
    found.info = *info;
    found.engine = engine_chosen(s);
    return 0;
}

void sampler_found_in_parent(bool holds)
{
    if (!holds)
        found.engine.clock = NULL;
}

static bool is_function(void *session, uint64_t start)
{
    return drain_function(((struct session *)session)->drain, start) != 0;
}

static void write_function_name(void *session, uint64_t start, const char *name, uint32_t length)
{
    struct session *s = session;
    struct spool_function_name head = {.start = drain_function(s->drain, start)};
    spool_append(s->spool, SPOOL_FUNCTION_NAME, &head, sizeof head, name, length);
}

/* No samples come after it; the session is still there, for whoever has the GIL. */
static void end_sampling(void *session)
{
    struct session *s = *(struct session **)session = session_lock_running();
    if (!s)
        return;
    if (atomic_load(&s->paused_until_ns) == UINT64_MAX)
        session_skip_pause(s);
    atomic_store(&s->stop_wanted, 1);
    pthread_mutex_unlock(&session_lock);
    collector_stop(s);
    atomic_store(&session_current, NULL);
    wait_for_handlers();
    give_back_signals(s);
}

int sampler_stop(sampler_namer *namer, struct sampler_result *result)
{
    struct session *s = NULL;
    if (session_get())
        session_block(end_sampling, &s);
    if (!s)
        return -EINVAL;
    if (namer)
        namer(&(struct function_names){is_function, write_function_name, s});
    uint64_t cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - s->start_cpu_ns;
    *result = (struct sampler_result){.end_ns = clock_now_ns(),
                                      .process_cpu_ns = atomic_load(&s->idle_since_ns) ? 0 : cpu_ns,
                                      .n_forked = atomic_load(&s->n_forked),
                                      .n_spawned = atomic_load(&s->n_spawned),
                                      .n_not_ready = atomic_load(&s->not_ready),
                                      .signal_taken = s->signal_taken,
                                      .spare_signal = s->spare_signal,
                                      .trap_lost = s->trap_lost};
    struct spool_end end = {.time_ns = result->end_ns,
                            .process_cpu_ns = result->process_cpu_ns,
                            .n_forked = result->n_forked,
                            .n_spawned = result->n_spawned,
                            .n_kernel_lost = s->perf.kernel_lost,
                            .n_mute = s->perf.n_mute,
                            .unaccounted_ns = s->unaccounted_ns};
    spool_append(s->spool, SPOOL_END, &end, sizeof end, NULL, 0);
    result->write_error = spool_flush(s->spool);
    session_set(NULL);
    dispose(s);
    return 0;
}

int sampler_running(void)
{
    return session_get() != NULL;
}

uint32_t sampler_generation(void)
{
    struct session *s = session_get();
    return s ? s->generation : 0;
}

struct exact *sampler_exact(void)
{
    struct session *s = session_get();
    return s ? s->exact : NULL;
}

int sampler_write(uint32_t type, const void *head, uint32_t head_length, const void *body,
                  uint32_t body_length)
{
    struct session *s = session_get();
    if (!s)
        return -EINVAL;
    int error = spool_append(s->spool, type, head, head_length, body, body_length);
    if (!error && type == SPOOL_META)
        error = spool_flush(s->spool); /* from now on it can be read, whatever happens */
    return error;
}

int sampler_post(uint32_t type, const void *head, uint32_t head_length, const void *body,
                 uint32_t body_length)
{
    struct session *s = session_get();
    return s ? spool_post(s->spool, type, head, head_length, body, body_length) : -EINVAL;
}
