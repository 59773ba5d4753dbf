/* The signal handler: one sample of the thread it runs on.
 *
 * It interrupts the program anywhere: inside malloc, the loader, the GC, a half-built frame.  So it
 * takes no lock, calls no function that could (scripts/signal_side_allowed.txt lists what this
 * side of the house may call), follows pointers only where bounds or guarded loads prove them, and
 * when something is missing it counts the loss and returns.
 *
 * Context: SIGPROF or SIGTRAP, on the interrupted thread's own stack (no SA_ONSTACK: alternate stacks
 * may be tiny); both are blocked.  errno is kept.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "session.h"
#include "clock.h"
#include "call_tree.h"
#include "frame.h"
#include "launcher.h"
#include "memread.h"
#include "join.h"
#include "records.h"
#include "regions.h"
#include "stack_bounds.h"
#include "thread_state.h"
#include "weight.h"

_Atomic(struct session *) session_current;
_Atomic int handlers_running;

static __thread struct {
    struct thread *thread;
    uint32_t generation;
    bool forks;
} mine;

void handler_forks(bool forks)
{
    mine.forks = forks;
}

static struct thread *own_record(struct session *s)
{
    if (mine.thread && mine.generation == s->generation)
        return mine.thread;
    pid_t tid = (pid_t)arch_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0);
    mine.thread = registry_find(&s->registry, tid);
    if (!mine.thread && (session_clock(s)->is_inherited || newborn_has(&s->newborns, tid))) {
        mine.thread = registry_claim(&s->registry, tid);
        if (mine.thread)
            session_nudge(s); /* others may begin: the stock is small */
    }
    mine.generation = s->generation;
    return mine.thread;
}

static uint64_t own_cpu_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

#define BLOCKED_NS 10000000ull

static uint64_t trap_data(const siginfo_t *info)
{
    uint64_t data; /* si_perf_data, which older C libraries do not name */
    memcpy(&data, (const char *)info + 24, sizeof data);
    return info->si_code == TRAP_OF_PERF ? data : 0;
}

static bool is_of_call(const siginfo_t *info)
{
    return trap_data(info) == SIGTRAP_CALL_DATA;
}

/* A SIGTRAP of this or an earlier session, which may have ended while the thread was in a system call. */
static bool is_our_trap(const siginfo_t *info)
{
    return trap_data(info) == SIGTRAP_DATA || is_of_call(info);
}

/* Did it come only now that the thread does not block it any more?  (si_perf_flags: TRAP_PERF_FLAG_ASYNC, Linux
 * 5.18.  Our handler does so for no time to speak of.)  fork() does, too, and the time is its own. */
static bool was_blocked(const siginfo_t *info)
{
    uint32_t flags;
    memcpy(&flags, (const char *)info + 36, sizeof flags);
    return is_our_trap(info) && flags & 1 && !mine.forks;
}

/* Reads the thread's CPU clock.  Returns how far it went since it was read last, less what the collector has written. */
static uint64_t look_at_clock(struct thread *t, uint64_t *cpu)
{
    *cpu = own_cpu_ns();
    uint64_t spent = *cpu - t->cpu_ns, blocked = atomic_exchange(&t->blocked_ns, 0);
    t->cpu_ns = *cpu;
    counter_set(&t->counters.n_unread, 0);
    counter_set(&t->counters.cpu_ns, *cpu);
    return spent > blocked ? spent - blocked : 0;
}

/* Where events do not see the kernel (kernel.perf_event_paranoid), one that expires in there is skipped, and a sample of
 * one stands for a period in user mode.  What is spent in the kernel the kernel's ticks find: a timer's signal that
 * leaves a system call has all that no sample stands for yet, in expectation what was spent in there since the last
 * one.  By the next event instead, a call of 1 ms would be the function's that runs after it.
 *
 * A page fault leaves no trace by which a tick would know it.  Events that were skipped while there were many faults
 * are the next one's: faults are short, and come where the thread goes on.  What adds up beyond KERNEL_OWED periods all
 * the same goes to the next tick, wherever that is. */
#define KERNEL_OWED 24
#define FAULTS_LEAST                                                                               \
    4 /* for each event that was skipped: one may zero a huge page, which takes 100 us and more */

/* Not a young one: it has ticks of its own (newborn.h), and each of its samples looks at the clock. */
static bool has_kernel_ticks(const struct thread *t)
{
    return atomic_load_explicit(&t->ticks_in_kernel, memory_order_relaxed) && !t->is_young;
}

static bool is_kernel_tick(const struct thread *t, const siginfo_t *info)
{
    return info->si_code == SI_TIMER &&
           atomic_load_explicit(&t->ticks_in_kernel, memory_order_relaxed);
}

static uint64_t own_page_faults(void)
{
    struct rusage usage = {.ru_minflt = 0};
    arch_syscall6(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0);
    return (uint64_t)usage.ru_minflt;
}

/* How many events were skipped since the last one because of page faults; n: periods since then. */
static uint64_t skipped_by_faults(struct thread *t, uint64_t n)
{
    uint64_t faults = own_page_faults(), n_faults = faults - t->event_faults;
    t->event_faults = faults;
    return n_faults >= FAULTS_LEAST * n ? n : 0;
}

/* Gives `weight` of what is owed, `owed` of the clock's time. */
static uint32_t give(struct thread *t, int64_t owed, uint64_t weight, uint64_t period)
{
    t->carry_ns = owed - (int64_t)(weight * period);
    return (uint32_t)weight;
}

static uint32_t weight_in_user_mode(struct thread *t, uint64_t period, uint64_t *cpu)
{
    int64_t owed = (int64_t)look_at_clock(t, cpu) + t->carry_ns;
    uint64_t n = (*cpu - t->event_cpu_ns + period / 2) / period;
    uint64_t skipped = skipped_by_faults(t, n ? n - 1 : 0),
             most = owed < 0 ? 0 : (uint64_t)owed / period;
    t->event_cpu_ns = *cpu;
    return give(t, owed, 1 + skipped <= most ? 1 + skipped : most ? most : 1, period);
}

/* 0: it is nobody's. */
static uint32_t weight_at_kernel_tick(struct thread *t, uint64_t period, const ucontext_t *context,
                                      uint64_t *cpu)
{
    int64_t owed = (int64_t)look_at_clock(t, cpu) + t->carry_ns;
    uint64_t n = (*cpu - t->event_cpu_ns) / period,
             whole = owed < 0 ? 0 : ((uint64_t)owed + period / 2) / period;
    uint64_t weight = 0;
    if (arch_leaves_syscall(context) || whole >= KERNEL_OWED) {
        weight = whole;
    } else if (n) {
        weight = skipped_by_faults(t, n);
        weight = weight < whole ? weight : whole;
    }
    if (weight)
        t->event_cpu_ns += n * period;
    return give(t, owed, weight, period);
}

/* A perf event reports an overflow, not how many there were (signals coalesce while the kernel works for the thread):
 * the thread's CPU clock has that.  To read it is a system call, which would be a third of a sample's cost, and after
 * which the thread may have to wait for a processor. */
static uint32_t weight_by_clock(struct session *s, struct thread *t, const siginfo_t *info,
                                uint64_t now, uint64_t *cpu)
{
    uint64_t period = atomic_load_explicit(&s->period_ns, memory_order_relaxed);
    if (has_kernel_ticks(t))
        return weight_in_user_mode(t, period, cpu);
    uint64_t since = now - t->sampled_ns;
    t->sampled_ns = now;
    if (!t->rest_until_ns &&
        weight_is_one(since, period, t->carry_ns, counter_get(&t->counters.n_unread))) {
        counter_add(&t->counters.n_unread, 1);
        t->carry_ns -= (int64_t)period;
        return 1;
    }
    uint64_t spent = look_at_clock(t, cpu);
    if ((int64_t)spent + t->carry_ns > (int64_t)(BLOCKED_NS + 8 * period) && was_blocked(info)) {
        t->carry_ns = 0; /* nobody knows where the time was spent: it is missed */
        return 1;
    }
    return weight_take(&t->carry_ns, spent, period);
}

/* How many periods this sample, taken at `now`, stands for.  Timers count their overruns.  *cpu: the same
 * moment by the thread's CPU clock; 0: that was not read. */
static uint32_t weight_of(struct session *s, struct thread *t, const siginfo_t *info, uint64_t now,
                          uint64_t *cpu)
{
    *cpu = 0;
    if (!session_clock(s)->is_tick_bound)
        return weight_by_clock(s, t, info, now, cpu);
    if (s->clock == CLOCK_CPU || !t->sampled_ns)
        *cpu = own_cpu_ns();
    if (s->clock == CLOCK_CPU)
        counter_set(&t->counters.cpu_ns, *cpu);
    t->sampled_ns = now;
    uint64_t blocked = s->clock == CLOCK_CPU ? atomic_exchange(&t->blocked_ns, 0) : 0;
    uint64_t weight = 1 + (uint64_t)info->si_overrun, less = blocked / atomic_load(&s->period_ns);
    return (uint32_t)(weight > less ? weight - less : 0);
}

/* A handler that takes longer than the period would find the next signal pending at its end, and
 * the thread would never get to its next instruction.  So after an expensive sample (one after another: of the
 * first the CPU time may not be known) the thread gets as much time for itself before the next one, by the
 * clock that is sampled by.  That others had the processor meanwhile is no expense. */
static void owe_time(struct session *s, struct thread *t, uint64_t began_cpu_ns, uint64_t wall_ns)
{
    t->rest_until_ns = 0;
    if (wall_ns < atomic_load_explicit(&s->period_ns, memory_order_relaxed) / 4)
        return;
    if (!began_cpu_ns) {
        t->sampled_ns = 0; /* the next sample looks, and will know */
        return;
    }
    uint64_t cpu = own_cpu_ns();
    t->rest_until_ns = (s->clock == CLOCK_WALL ? clock_now_ns() : cpu) + (cpu - began_cpu_ns);
}

/* The number of a code object seen for the first time; if it is new, its names go ahead of the sample.  0: not
 * possible. */
static uint32_t intern_code(struct session *s, struct thread *t, uint64_t code)
{
    struct code_record *r = ring_reserve(&t->ring, CODE_RECORD_MAX);
    size_t bytes = r ? code_record_fill(r, code, memread) : 0;
    if (!bytes)
        return 0;
    bool is_new;
    codes_intern(s->codes, code, r, bytes, &is_new);
    uint32_t number = r->number;
    if (is_new)
        ring_commit(&t->ring, r, bytes, RING_CODE);
    return number;
}

static void name_python_frames(struct session *s, struct thread *t)
{
    for (size_t i = 0; i < t->chain.n_frames; i++) {
        const struct py_frame *f = &t->chain.frames[i];
        uint32_t number =
            f->code ? codes_numbers(s->codes, codes_find(s->codes, f->code)).number : 0;
        if (!number && f->code)
            number = intern_code(s, t, f->code);
        t->room.python[i] =
            number ? frame_python(number, f->offset) : frame_pseudo(PSEUDO_UNKNOWN_PYTHON);
    }
}

/* The innermost function that the exact half knows to run; NULL: none, or it is just changing.  The end
 * of profiling empties the stack from another thread: its depth is read once. */
static const struct exact_frame *shadow_top(const struct session *s)
{
    const struct exact_thread *e = exact_this_thread.thread;
    if (!e || !s->exact || s->backend || exact_this_thread.generation != s->exact->generation)
        return NULL; /* (at the end of a thread the two go one after the other) */
    /* Those that a filter left out may have ended. */
    for (uint32_t i = *(const volatile uint32_t *)&e->depth; i--;)
        if (e->stack[i].flags & EXACT_RECORDED && !(e->stack[i].flags & EXACT_REGION))
            return &e->stack[i];
    return NULL;
}

/* Is it ours what the thread does, whatever is on its stack? */
static bool in_own_work(const struct session *s)
{
    if (atomic_load_explicit(&exact_this_thread.own, memory_order_relaxed))
        return true;
    bool is_ours = !s->exact || exact_this_thread.generation == s->exact->generation;
    return is_ours && atomic_load_explicit(&exact_this_thread.busy, memory_order_relaxed);
}

/* Did the native walk come to where it was to stop? */
static bool is_met(const struct unwind *u, const struct join_input *in)
{
    return in->end == UNWIND_COMPLETE && in->n_native &&
           unwind_is_stop(u, in->native[in->n_native - 1].cfa);
}

/* Are these the frames of what runs the program, before it begins or when it has ended? */
static bool is_launcher(const struct py_chain *chain)
{
    if (chain->state != PY_COMPLETE || !chain->n_frames)
        return false;
    const struct py_frame *last = &chain->frames[chain->n_frames - 1];
    return launcher_is_outermost(last->frame, last->code);
}

/* The entry frame of the eval loop that the walk ends with; 0: none. */
static uint64_t last_entry(const struct py_chain *chain)
{
    bool is_last = chain->state == PY_STOPPED || chain->state == PY_LAUNCHED;
    return is_last && chain->n_entries ? chain->anchors[chain->n_entries - 1] : 0;
}

static size_t walk_native(struct session *s, struct thread *t, ucontext_t *context,
                          const struct unwind_regs *regs, enum unwind_end *end)
{
    if (!s->backend)
        return unwind_walk(&t->unwind, regs, t->room.native, t->room.max_frames, end);
    size_t n = s->backend(context, t->room.native, t->room.max_frames, end);
    for (size_t i = 0; t->unwind.stop_cfa && i < n; i++)
        if (unwind_is_stop(&t->unwind, t->room.native[i].cfa)) {
            *end = UNWIND_COMPLETE;
            return i + 1;
        }
    return n;
}

/* One walk; `*is_full`: there may be more than there is room for. */
static size_t walk_in_room(struct session *s, struct thread *t, ucontext_t *context,
                           const struct unwind_regs *regs, const struct exact_frame *top,
                           bool *is_full)
{
    t->chain.in_register = arch_kept_register(context, s->layout.frame_register);
    t->chain.stop_frame = top ? top->frame : 0;
    t->chain.stop_entry = top ? top->entry : 0;
    pyframe_walk(&t->unwind, regs, &s->layout, &t->chain);
    *is_full = t->chain.state == PY_TRUNCATED;
    if (top && t->chain.state != PY_STOPPED)
        return 0;
    t->room.words[0] = frame_pseudo(PSEUDO_PYHYBRID);
    if (is_launcher(&t->chain))
        return 1;
    uint64_t entry = last_entry(&t->chain);
    pyframe_stop_at(&s->layout, &t->unwind, entry);
    bool to_launcher = !entry && launcher_stop(&t->unwind, regs->sp);
    t->unwind.anchors = t->chain.anchors;
    t->unwind.n_anchors = t->chain.n_entries;
    t->unwind.anchor_rule = &s->layout.anchor;
    struct join_input in = {.native = t->room.native,
                            .chain = &t->chain,
                            .python = t->room.python,
                            .regions = regions_this_thread,
                            .causes = causes_this_thread,
                            .to_root = !top,
                            .layout = &s->layout};
    in.n_native = walk_native(s, t, context, regs, &in.end);
    *is_full |= in.end == UNWIND_TOO_DEEP;
    bool met = is_met(&t->unwind, &in);
    if (top && !met)
        return 0;
    if (to_launcher && met && !--in.n_native)
        return 1;
    name_python_frames(s, t);
    size_t n = join_stack(&in, t->room.words, t->room.max_frames);
    *is_full |= n == t->room.max_frames;
    return n;
}

/* Walks both halves and joins them, down to `top`'s eval loop or, if that is NULL, to the program's outermost one or
 * the thread's root.  Returns the number of words in t->room.words; 0: `top` was not met. */
static size_t walk(struct session *s, struct thread *t, ucontext_t *context,
                   const struct unwind_regs *regs, const struct exact_frame *top)
{
    bool is_full;
    size_t n = walk_in_room(s, t, context, regs, top, &is_full);
    if (!is_full || t->room.max_frames == t->limits.max_frames)
        return n;
    thread_use_room(t, &t->full_room);
    return walk_in_room(s, t, context, regs, top, &is_full);
}

static size_t take_stack(struct session *s, struct thread *t, ucontext_t *context,
                         const struct exact_frame **top)
{
    struct unwind_regs regs;
    *top = NULL;
    if (in_own_work(s)) {
        t->room.words[0] = frame_pseudo(PSEUDO_PYHYBRID);
        return 1;
    }
    arch_regs_from_context(&regs, context);
    stack_bounds_update(&t->unwind, regs.sp, s->main_stack_high);
    unwind_refresh(&t->unwind);
    *top = shadow_top(s);
    size_t n = *top ? walk(s, t, context, &regs, *top) : 0;
    if (n) {
        callers_note(&t->callers, &t->unwind, s->exact, *top);
        return n;
    }
    *top = NULL;
    return walk(s, t, context, &regs, NULL);
}

static void lose(struct thread *t, enum loss why, uint32_t weight)
{
    counter_add(&t->counters.lost[why], 1);
    counter_add(&t->counters.lost_weight[why], weight);
}

static void count_time(struct thread *t, uint64_t ns)
{
    uint64_t x = ns / 64;
    if (x < 1)
        x = 1;
    unsigned power = 63u - (unsigned)__builtin_clzll(x);
    unsigned quarter = power < 2 ? 0 : (unsigned)(x >> (power - 2)) & 3;
    unsigned bucket = 4 * power + quarter;
    counter_add(&t->counters.handler_ns[bucket < SPOOL_HISTOGRAM ? bucket : SPOOL_HISTOGRAM - 1],
                1);
}

/* By wall-clock time: was the thread off the CPU?  In a system call that the signal has ended; or the
 * signal came late, and most of the time until then was no CPU time. */
static bool was_off_cpu(struct session *s, const ucontext_t *context, uint32_t weight,
                        uint64_t spent_ns)
{
    return thread_was_waiting(context) ||
           (weight > 1 &&
            2 * spent_ns < weight * atomic_load_explicit(&s->period_ns, memory_order_relaxed));
}

/* The collector sees it at its next look, and is woken once for each time that a sample finds it so anew. */
static void notify_if_urgent(struct session *s, struct thread *t)
{
    bool urgent = thread_is_urgent(t);
    if (urgent)
        atomic_store_explicit(&s->ring_fills, true, memory_order_release);
    if (urgent && !t->is_urgent)
        session_nudge(s);
    t->is_urgent = urgent;
}

/* A tick's sample counts from now on: nobody else's clock stands for it. */
static void count_held(struct thread *t)
{
    struct sample_record *held = t->held;
    t->held = NULL;
    ring_commit(&t->ring, held, t->held_bytes, RING_SAMPLE);
}

/* A sample of the thread's own clock stands for all since the one before. */
static void settle_held(struct thread *t)
{
    if (!t->held)
        return;
    t->held = NULL;
    t->callers.n_known = t->held_known;
}

static bool record(struct thread *t, struct sample_record *head, const struct exact_frame *top)
{
    size_t words = head->n_words * sizeof(uint64_t);
    uint32_t n_places = top ? callers_of(&t->callers, top) : 0;
    uint32_t n_notes = n_places > t->callers.n_known ? n_places - t->callers.n_known : 0;
    size_t notes = n_notes * sizeof(struct caller_note), bytes = sizeof *head + words + notes;
    struct sample_record *r = ring_reserve(&t->ring, bytes);
    if (!r) {
        lose(t, LOSS_RING_FULL, head->weight);
        return false;
    }
    *r = *head;
    r->base_thread = top ? exact_this_thread.thread : NULL;
    r->base_node = top ? top->node->parent : 0;
    r->n_places = n_places;
    r->n_notes = n_notes;
    memcpy(r->words, t->room.words, words);
    struct caller_note *note = (struct caller_note *)(r->words + head->n_words);
    for (uint32_t i = n_places - n_notes; i < n_places; i++)
        *note++ = t->callers.place[i].note;
    t->held_known = t->callers.n_known;
    if (n_places)
        t->callers.n_known = n_places;
    if (head->is_tick && t->n_own) {
        t->held = r;
        t->held_bytes = bytes;
        return true;
    }
    if (!head->is_tick) { /* its weight the drain knows */
        counter_add(&t->counters.recorded, 1);
        counter_add(&t->counters.recorded_weight, head->weight);
    }
    ring_commit(&t->ring, r, bytes, RING_SAMPLE);
    return true;
}

/* Is it found waiting again and again (sleep_detection.c)?  That it waits for the GIL may be our own doing. */
static bool waits_on(struct thread *t, const struct sample_record *r, uint64_t cpu_ns)
{
    if (r->gil == GIL_WAITING || !t->has_cpu_timer)
        return false;
    uint64_t waited = r->time_ns - t->waits_since_ns, ran = cpu_ns - t->waits_cpu_ns;
    if (!r->waits || (t->n_waits && waited >= ASLEEP_AFTER_NS && 5 * ran > waited))
        t->n_waits = 0;
    if (r->waits && !t->n_waits++) {
        t->waits_since_ns = r->time_ns;
        t->waits_cpu_ns = cpu_ns;
        return false;
    }
    return t->n_waits >= ASLEEP_SAMPLES && waited >= ASLEEP_AFTER_NS;
}

static void fall_asleep(struct thread *t, uint64_t time_ns, uint64_t cpu_ns)
{
    session_set_timer(t->timer, 0, 0);
    session_set_timer(t->cpu_timer, 1, 0);
    t->n_waits = 0;
    t->asleep_cpu_ns = cpu_ns;
    atomic_fetch_add(&t->n_sleeps, 1);
    atomic_store(&t->asleep_since_ns, time_ns);
}

static void record_hold(struct thread *t, uint64_t time_ns, uint32_t weight)
{
    struct hold_record *r = ring_reserve(&t->ring, sizeof *r);
    counter_add(&t->counters.signals, 1);
    if (!r) {
        lose(t, LOSS_RING_FULL, weight);
        return;
    }
    r->time_ns = time_ns;
    r->weight = weight;
    counter_add(&t->counters.recorded, 1);
    counter_add(&t->counters.recorded_weight, weight);
    ring_commit(&t->ring, r, sizeof *r, RING_HOLD);
}

/* By wall-clock time: the weight of a signal that comes at `now`.  If the thread was asleep, its last
 * sample holds until it woke. */
static uint32_t wake_up(struct session *s, struct thread *t, uint64_t now, uint32_t weight,
                        bool is_waking)
{
    uint64_t since = atomic_exchange(&t->asleep_since_ns, 0);
    if (!since)
        return is_waking ? 0 : weight;
    uint64_t period = atomic_load_explicit(&s->period_ns, memory_order_relaxed);
    uint64_t cpu = own_cpu_ns(), ran = cpu - t->asleep_cpu_ns;
    uint64_t elapsed = now > since ? now - since : 0;
    if (ran > elapsed)
        ran = elapsed;
    uint64_t held = t->held_ns + elapsed - ran;
    t->held_ns = held % period;
    t->owed_ns += ran;
    t->cpu_ns = cpu;
    if (held / period)
        record_hold(t, now - ran,
                    held / period < UINT32_MAX ? (uint32_t)(held / period) : UINT32_MAX);
    session_set_timer(t->cpu_timer, 0, 0);
    session_set_timer(t->timer, period, period);
    return 0;
}

/* What the thread was about, besides its stack. */
static void record_with_state(struct session *s, struct thread *t, struct sample_record *head,
                              const ucontext_t *context, const struct exact_frame *top)
{
    head->cpu = thread_cpu();
    head->gil = thread_gil(context);
    head->in_kernel = arch_leaves_syscall(context);
    if (s->clock == CLOCK_CPU) {
        record(t, head, top);
        return;
    }
    uint64_t period = atomic_load_explicit(&s->period_ns, memory_order_relaxed);
    uint64_t cpu = own_cpu_ns(), spent = cpu - t->cpu_ns;
    t->cpu_ns = cpu;
    head->waits = was_off_cpu(s, context, head->weight, spent);
    head->in_kernel &= !head->waits;
    if (!head->waits) {
        head->weight += (uint32_t)(t->owed_ns / period);
        t->owed_ns %= period;
    }
    if (record(t, head, top) && waits_on(t, head, cpu))
        fall_asleep(t, head->time_ns, cpu);
}

/* A signal that counts nowhere.  A timer's stands for what the thread did since `since_cpu_ns`, which may have begun
 * before the session was idle: that much is missed. */
static void leave_out(struct session *s, struct thread *t, uint32_t weight, uint64_t since_cpu_ns)
{
    uint64_t ns = weight * atomic_load(&s->period_ns);
    uint64_t idle_cpu_ns = atomic_load(&s->idle_cpu_ns), counts_ns = 0;
    if (atomic_load(&s->idle_tid) == t->tid && since_cpu_ns < idle_cpu_ns)
        counts_ns = idle_cpu_ns - since_cpu_ns;
    counter_add(&t->counters.idle_ns, counts_ns < ns ? ns - counts_ns : 0);
}

/* A young thread runs (newborn.h).  One that comes late, when its own clock has taken over, is nobody's. */
static void sample_at_tick(struct session *s, struct thread *t, ucontext_t *context, uint64_t start,
                           enum tick_kind kind)
{
    if (atomic_load_explicit(&s->idle, memory_order_relaxed) ||
        atomic_load_explicit(&s->calibrating, memory_order_relaxed) ||
        !newborn_has(&s->newborns, t->tid) || (t->n_own && !t->is_young) ||
        own_cpu_ns() < t->rest_until_ns)
        return;
    if (t->held)
        count_held(t);
    const struct exact_frame *top;
    size_t n = take_stack(s, t, context, &top);
    struct sample_record head = {.time_ns = start, .n_words = (uint32_t)n, .is_tick = kind};
    record_with_state(s, t, &head, context, top);
    counter_add(&t->n_ticks, 1);
    notify_if_urgent(s, t);
    count_time(t, clock_now_ns() - start);
}

/* Is it a young thread's first signal of its own clock, up to which ticks stand for its time?  From there on its own clock does, but
 * for the time after its last signal: of each thread a little more or less, as if it had begun in the midst of a period. */
static bool takes_over(struct session *s, struct thread *t)
{
    if (!t->is_young || session_clock(s)->is_tick_bound ||
        atomic_load_explicit(&s->idle, memory_order_relaxed))
        return false;
    int64_t period = (int64_t)atomic_load(&s->period_ns);
    t->sampled_ns = 0; /* each one looks at the clock */
    if (t->n_own++) {
        t->is_young = t->n_own <= NEWBORN_OWN_SAMPLES && newborn_has(&s->newborns, t->tid);
        if (!t->is_young) {
            newborn_drop(&s->newborns, t->tid);
            t->carry_ns += period / 2; /* of the period that it ends in */
        }
        return false;
    }
    t->carry_ns = (int64_t)session_random((uint64_t)t->tid, (uint64_t)period) - 1 - period / 2;
    if (!newborn_has(&s->newborns, t->tid)) { /* it runs no Python function */
        newborn_begin(s, t->tid, false);
        return false;
    }
    uint64_t cpu = own_cpu_ns();
    counter_set(&t->counters.cpu_ns, cpu);
    counter_set(&t->young_ns, newborn_share(s, t->tid, t->cpu_ns, cpu));
    t->cpu_ns = cpu;
    return true;
}

static enum tick_kind tick_kind(const siginfo_t *info)
{
    if (info->si_code != SI_TIMER)
        return NO_TICK;
    if (info->si_ptr == (void *)NEWBORN_DATA)
        return TICK_SHARES;
    return info->si_ptr == (void *)(NEWBORN_DATA + 1) ? TICK_ALONE : NO_TICK;
}

static void sample(struct session *s, const siginfo_t *info, ucontext_t *context)
{
    uint64_t start = clock_now_ns();
    struct thread *t = own_record(s);
    if (!t) {
        atomic_fetch_add_explicit(&s->not_ready, 1, memory_order_relaxed);
        return;
    }
    if (tick_kind(info)) {
        sample_at_tick(s, t, context, start, tick_kind(info));
        return;
    }
    bool in_kernel = is_kernel_tick(t, info);
    if (in_kernel && (t->is_young || atomic_load_explicit(&s->calibrating, memory_order_relaxed)))
        return;
    settle_held(t); /* before anything is written: it lies where that comes */
    if (!in_kernel && takes_over(s, t))
        return;
    uint64_t cpu, since_cpu = counter_get(&t->counters.cpu_ns);
    uint64_t period = atomic_load_explicit(&s->period_ns, memory_order_relaxed);
    uint32_t weight = in_kernel ? weight_at_kernel_tick(t, period, context, &cpu)
                                : weight_of(s, t, info, start, &cpu);
    if (in_kernel && !weight)
        return;
    if (atomic_load_explicit(&s->idle, memory_order_relaxed)) {
        leave_out(s, t, weight, since_cpu);
        return;
    }
    bool calibrating = atomic_load_explicit(&s->calibrating, memory_order_relaxed);
    if (!calibrating)
        counter_add(&t->counters.signals, 1);
    if (s->clock == CLOCK_WALL)
        weight = wake_up(s, t, start, weight, info->si_ptr == session_waking(s));
    if ((s->clock == CLOCK_WALL ? start : cpu) < t->rest_until_ns) {
        if (!calibrating)
            lose(t, LOSS_TOO_SLOW, weight);
        return;
    }
    const struct exact_frame *top;
    size_t n = take_stack(s, t, context, &top);
    if (calibrating) {
        atomic_fetch_add_explicit(&s->calibration_signals, 1, memory_order_relaxed);
        return;
    }
    struct sample_record head = {.time_ns = start, .weight = weight, .n_words = (uint32_t)n};
    record_with_state(s, t, &head, context, top);
    notify_if_urgent(s, t);
    uint64_t took = clock_now_ns() - start;
    count_time(t, took);
    owe_time(s, t, cpu, took);
}

/* Whether it is to be sampled: 1; to be dropped: 0; another's: -1. */
static int whose(struct session *s, int signal, const siginfo_t *info)
{
    const struct clock_ops *clock = s ? session_clock(s) : NULL;
    if (tick_kind(info))
        return clock && clock->signal == signal;
    if (signal == SIGTRAP)
        return !is_our_trap(info) ? -1 : clock && clock->signal == SIGTRAP && !is_of_call(info);
    if (!clock)
        return 0;
    if (clock->by_descriptor && info->si_code >= POLL_IN && info->si_code <= POLL_HUP)
        return 1;
    bool is_ours = info->si_ptr == s || info->si_ptr == session_waking(s);
    return info->si_code == SI_TIMER && is_ours ? 1 : -1;
}

/* Whatever it was sent for: of two at once, one comes. */
static void watch_call(struct session *s, ucontext_t *context)
{
    if (!previous_handler_take_call(context))
        return;
    atomic_store(&s->trap_wanted, true);
    session_nudge(s);
}

void handler_on_signal(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    atomic_fetch_add(&handlers_running, 1);
    struct session *s = atomic_load(&session_current);
    int ours = whose(s, signal, info);
    if (ours > 0 && atomic_load(&s->state) == SESSION_RUNNING)
        sample(s, info, context);
    if (s && signal == SIGTRAP && ours >= 0 && !tick_kind(info))
        watch_call(s, context);
    atomic_fetch_sub(&handlers_running, 1);
    errno = saved_errno;
    if (ours < 0)
        previous_handler_pass_on(signal, info, context);
}
