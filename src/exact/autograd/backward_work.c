#include "backward_work.h"

#include "backward_place.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block_queue.h"
#include "running_backward.h"
#include "map.h"
#include "names.h"

/* What the calling thread is in the midst of: beside causes.at. */
struct pieces {
    struct causes causes;
    struct piece {
        struct maker origin;
        uint32_t session;
        uint64_t since, inner; /* ticks; of the pieces in it */
    } at[CAUSES_MAX];
    struct backward_sums *sums;
    uint64_t hint;
    uint32_t tid;
};

static _Atomic uint32_t session; /* its number; 0: none runs */
static uint32_t n_sessions;
static bool use_tsc;

/* Threads that look at their shadow stacks without the GIL: a session's are not freed meanwhile. */
static _Atomic uint32_t n_looking;
#define LOOKS_MAX 100000 /* a thread may be off the CPU there, for a while */

NAMES(names, 1024);

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block_queue turns; /* the lock's holder writes */
static uint64_t n_turns;
static _Atomic bool is_logged;

#define FIRST_TURNS 4096       /* bytes */
#define TURNS_MAX (1ull << 23) /* of a session: 320 MB */

static pthread_key_t pieces_key;
static pthread_once_t pieces_key_once = PTHREAD_ONCE_INIT;

static void on_thread_end(void *pieces)
{
    causes_this_thread = NULL;
    backward_sums_give(((struct pieces *)pieces)->sums);
    map_memory_free(pieces, sizeof(struct pieces));
}

static void make_key(void)
{
    pthread_key_create(&pieces_key, on_thread_end);
}

static struct pieces *own_pieces(void)
{
    if (causes_this_thread)
        return (struct pieces *)causes_this_thread;
    struct pieces *p = map_memory(sizeof *p);
    if (!p || !(p->sums = backward_sums_take())) {
        map_memory_free(p, sizeof *p);
        return NULL;
    }
    p->tid = (uint32_t)syscall(SYS_gettid);
    pthread_once(&pieces_key_once, make_key);
    pthread_setspecific(pieces_key, p);
    causes_this_thread = &p->causes;
    return p;
}

/* As exact_ticks, without a session that may go. */
static uint64_t ticks(void)
{
    return use_tsc ? arch_ticks() : clock_now_ns();
}

/* --- what was done ---------------------------------------------------------------------------------- */

static __attribute__((noinline)) void log_turn(const struct piece *piece, uint32_t tid,
                                               uint64_t until)
{
    pthread_mutex_lock(&turns_lock);
    struct backward_turn *turn =
        is_logged && piece->session == atomic_load(&session) && n_turns < TURNS_MAX
            ? block_queue_reserve(&turns, sizeof *turn, FIRST_TURNS)
            : NULL;
    if (turn) {
        *turn = (struct backward_turn){.since = piece->since,
                                       .until = until,
                                       .thread = piece->origin.thread,
                                       .node = piece->origin.node,
                                       .tid = tid,
                                       .handle = (uint32_t)pthread_self()};
        block_queue_commit(&turns, sizeof *turn);
        n_turns++;
    }
    pthread_mutex_unlock(&turns_lock);
}

void backward_log(bool on)
{
    atomic_store(&is_logged, on);
}

const struct backward_turn *backward_turns(size_t *bytes)
{
    return block_queue_peek(&turns, bytes);
}

void backward_turns_release(size_t bytes)
{
    block_queue_release(&turns, bytes);
}

const char *backward_name(uint32_t number)
{
    return number && number < names.max ? atomic_load(&names.text[number]) : NULL;
}

void backward_forget(void)
{
    pthread_mutex_lock(&turns_lock);
    block_queue_clear(&turns);
    n_turns = 0;
    is_logged = false;
    pthread_mutex_unlock(&turns_lock);
    makers_forget();
    backward_sums_forget();
}

void backward_start(void)
{
    use_tsc = arch_ticks_steady();
    backward_sums_start(++n_sessions);
    atomic_store(&session, n_sessions);
}

void backward_stop(void)
{
    atomic_store(&session, 0);
    for (int i = 0; i < LOOKS_MAX && atomic_load(&n_looking); i++)
        sched_yield();
    makers_watch(NULL);
}

void backward_after_fork_child(void)
{
    pthread_mutex_init(&turns_lock, NULL);
    backward_sums_after_fork_child();
    atomic_store(&n_looking, 0);
    atomic_store(&session, 0);
    makers_after_fork_child();
}

/* --- one piece of work ------------------------------------------------------------------------------ */

static void begin(uint64_t maker, uint64_t number, uint64_t address)
{
    uint32_t running = atomic_load_explicit(&session, memory_order_relaxed);
    struct pieces *p;
    if (!running || !atomic_load_explicit(&exact_current, memory_order_relaxed) ||
        !(p = own_pieces()))
        return;
    uint32_t n = atomic_load_explicit(&p->causes.n, memory_order_relaxed);
    if (n < CAUSES_MAX) {
        struct piece *piece = &p->at[n];
        bool follows = number == LATER_FOLLOWS && piece->session == running;
        struct maker last = piece->origin; /* of the one before it in the same */
        *piece = (struct piece){.session = running};
        if (follows)
            piece->origin = last;
        else if (!maker_find(maker, number, &p->hint, &piece->origin))
            piece->origin = (struct maker){0};
        p->causes.at[n].address = address;
        p->causes.at[n].word = piece->origin.object ? frame_cause(piece->origin.object) : 0;
        piece->since = ticks();
    }
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&p->causes.n, n + 1, memory_order_relaxed);
}

/* The piece of that address, the innermost one but for those that never ended.  CAUSES_MAX: it is not known. */
static uint32_t find(const struct causes *c, uint64_t address)
{
    uint32_t n = atomic_load_explicit(&c->n, memory_order_relaxed);
    for (uint32_t i = n < CAUSES_MAX ? n : CAUSES_MAX; i--;)
        if (c->at[i].address == address)
            return i;
    return CAUSES_MAX;
}

static void end(uint64_t address, const char *name)
{
    struct pieces *p = (struct pieces *)causes_this_thread;
    uint32_t n = p ? atomic_load_explicit(&p->causes.n, memory_order_relaxed) : 0;
    if (!n)
        return;
    if (n > CAUSES_MAX) {
        atomic_store_explicit(&p->causes.n, n - 1, memory_order_relaxed);
        return;
    }
    uint64_t now = ticks();
    uint32_t at = find(&p->causes, address);
    if (at == CAUSES_MAX) /* it began before the session */
        return;
    struct piece *piece = &p->at[at];
    atomic_store_explicit(&p->causes.n, at, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    uint64_t all = now > piece->since ? now - piece->since : 0;
    if (at)
        p->at[at - 1].inner += all;
    if (piece->session != atomic_load_explicit(&session, memory_order_relaxed))
        return;
    if (atomic_load_explicit(&is_logged, memory_order_relaxed))
        log_turn(piece, p->tid, now);
    backward_sums_add(p->sums, piece->session, &piece->origin, names_number(&names, name),
                      all > piece->inner ? all - piece->inner : 0);
}

struct backward_place backward_place(void)
{
    const struct pieces *p = (const struct pieces *)causes_this_thread;
    uint32_t n = p ? atomic_load_explicit(&p->causes.n, memory_order_relaxed) : 0;
    bool is_one = n && n <= CAUSES_MAX;
    return is_one ? (struct backward_place){n, p->at[n - 1].inner} : (struct backward_place){0};
}

void backward_leave_out(struct backward_place place, uint64_t ticks)
{
    struct pieces *p = (struct pieces *)causes_this_thread;
    if (place.n && atomic_load_explicit(&p->causes.n, memory_order_relaxed) == place.n)
        p->at[place.n - 1].inner = place.inner + ticks;
}

/* --- where a thread is ------------------------------------------------------------------------------ */

static bool here(struct maker *place, bool *is_later)
{
    *place = (struct maker){0};
    const struct pieces *p = (const struct pieces *)causes_this_thread;
    uint32_t running = atomic_load_explicit(&session, memory_order_relaxed);
    uint32_t n = p ? atomic_load_explicit(&p->causes.n, memory_order_relaxed) : 0;
    *is_later = running && n && n <= CAUSES_MAX && p->at[n - 1].session == running;
    if (*is_later) {
        *place = p->at[n - 1].origin;
        return place->thread;
    }
    if (!running)
        return false;
    atomic_fetch_add(&n_looking, 1);
    bool is_seen = atomic_load(&session) == running; /* who stops it waits for us, or we see that */
    const struct exact *x = is_seen ? atomic_load(&exact_current) : NULL;
    const struct exact_thread *t = exact_this_thread.thread;
    if (x && t && exact_this_thread.generation == x->generation &&
        !atomic_load_explicit(&exact_this_thread.busy, memory_order_relaxed) && t->depth) {
        place->thread = (uint32_t)t->serial;
        place->node = t->stack[t->depth - 1].node->id;
    }
    atomic_fetch_sub_explicit(&n_looking, 1, memory_order_release);
    return place->thread;
}

const struct backward_api backward_api = {makers_watch, begin, end, here};
