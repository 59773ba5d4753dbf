#include "later.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block_queue.h"
#include "causes.h"
#include "map.h"
#include "names.h"

/* What the calling thread is in the midst of: beside causes.at. */
struct pieces {
    struct causes causes;
    struct piece {
        struct origin origin;
        uint32_t session;
        uint64_t since, inner; /* ticks; of the pieces in it */
    } at[CAUSES_MAX];
    uint64_t hint;
    uint32_t tid;
};

static _Atomic uint32_t session; /* its number; 0: none runs */
static uint32_t n_sessions;
static bool use_tsc;

NAMES(names, 1024);

static pthread_mutex_t sums_lock = PTHREAD_MUTEX_INITIALIZER;
static struct later_sum *sums;
static uint32_t *places; /* by hash: a sum's number from 1; twice as many as there is room for */
static uint32_t n_sums, max_sums;
static struct block_queue turns; /* the lock's holder writes */
static uint64_t n_turns;
static bool is_logged;

#define FIRST_SUMS 512
#define FIRST_TURNS 4096       /* bytes */
#define TURNS_MAX (1ull << 23) /* of a session: 320 MB */

static pthread_key_t pieces_key;
static pthread_once_t pieces_key_once = PTHREAD_ONCE_INIT;

static void on_thread_end(void *pieces)
{
    causes_mine = NULL;
    map_memory_free(pieces, sizeof(struct pieces));
}

static void make_key(void)
{
    pthread_key_create(&pieces_key, on_thread_end);
}

static struct pieces *own_pieces(void)
{
    if (causes_mine)
        return (struct pieces *)causes_mine;
    struct pieces *p = map_memory(sizeof *p);
    if (!p)
        return NULL;
    p->tid = (uint32_t)syscall(SYS_gettid);
    pthread_once(&pieces_key_once, make_key);
    pthread_setspecific(pieces_key, p);
    causes_mine = &p->causes;
    return p;
}

/* As exact_ticks, without a session that may go. */
static uint64_t ticks(void)
{
    return use_tsc ? arch_ticks() : clock_now_ns();
}

/* --- sums ------------------------------------------------------------------------------------------- */

static uint32_t *place_of(uint32_t thread, uint32_t node, uint32_t name)
{
    uint32_t mask = 2 * max_sums - 1;
    uint64_t h = map_hash(((uint64_t)thread << 32 | node) * 0x9e3779b97f4a7c15ull + name);
    for (uint32_t at = (uint32_t)h & mask;; at = (at + 1) & mask) {
        const struct later_sum *s = &sums[places[at] - 1];
        if (!places[at] || (s->node == node && s->name == name && s->thread == thread))
            return &places[at];
    }
}

static bool grow(void)
{
    uint32_t n = max_sums ? 2 * max_sums : FIRST_SUMS;
    struct later_sum *larger = map_memory(n * sizeof *larger);
    uint32_t *wider = map_memory(2 * n * sizeof *wider);
    if (!larger || !wider) {
        map_memory_free(larger, n * sizeof *larger);
        map_memory_free(wider, 2 * n * sizeof *wider);
        return false;
    }
    for (uint32_t i = 0; i < n_sums; i++)
        larger[i] = sums[i];
    map_memory_free(sums, max_sums * sizeof *sums);
    map_memory_free(places, 2 * max_sums * sizeof *places);
    sums = larger;
    places = wider;
    max_sums = n;
    for (uint32_t i = 0; i < n_sums; i++)
        *place_of(sums[i].thread, sums[i].node, sums[i].name) = i + 1;
    return true;
}

static void log_turn(const struct piece *piece, uint32_t tid, uint64_t until)
{
    struct later_turn *turn =
        n_turns < TURNS_MAX ? block_queue_reserve(&turns, sizeof *turn, FIRST_TURNS) : NULL;
    if (!turn)
        return;
    *turn = (struct later_turn){.since = piece->since,
                                .until = until,
                                .thread = piece->origin.thread,
                                .node = piece->origin.node,
                                .tid = tid,
                                .handle = (uint32_t)pthread_self()};
    block_queue_commit(&turns, sizeof *turn);
    n_turns++;
}

void later_log(bool on)
{
    pthread_mutex_lock(&sums_lock);
    is_logged = on;
    pthread_mutex_unlock(&sums_lock);
}

const struct later_turn *later_turns(size_t *bytes)
{
    return block_queue_peek(&turns, bytes);
}

void later_turns_release(size_t bytes)
{
    block_queue_release(&turns, bytes);
}

static void add(const struct piece *piece, uint32_t name, uint32_t tid, uint64_t until)
{
    uint64_t all = until > piece->since ? until - piece->since : 0;
    uint64_t took = all > piece->inner ? all - piece->inner : 0;
    pthread_mutex_lock(&sums_lock);
    if (is_logged && piece->session == atomic_load(&session))
        log_turn(piece, tid, until);
    if (piece->session == atomic_load(&session) && (n_sums < max_sums || grow())) {
        const struct origin *o = &piece->origin;
        uint32_t *place = place_of(o->thread, o->node, name);
        if (!*place) {
            sums[n_sums] = (struct later_sum){.thread = o->thread, .node = o->node, .name = name};
            *place = ++n_sums;
        }
        sums[*place - 1].calls++;
        sums[*place - 1].ticks += took;
    }
    pthread_mutex_unlock(&sums_lock);
}

uint32_t later_read(uint32_t first, struct later_sum *to, uint32_t max)
{
    uint32_t n = 0;
    pthread_mutex_lock(&sums_lock);
    for (; n < max && first + n < n_sums; n++)
        to[n] = sums[first + n];
    pthread_mutex_unlock(&sums_lock);
    return n;
}

const char *later_name(uint32_t number)
{
    return number && number < names.max ? atomic_load(&names.text[number]) : NULL;
}

void later_start(void)
{
    pthread_mutex_lock(&sums_lock);
    for (uint32_t i = 0; i < 2 * max_sums; i++)
        places[i] = 0;
    n_sums = 0;
    block_queue_clear(&turns);
    n_turns = 0;
    is_logged = false;
    use_tsc = arch_ticks_steady();
    atomic_store(&session, ++n_sessions);
    pthread_mutex_unlock(&sums_lock);
}

void later_stop(void)
{
    atomic_store(&session, 0);
    origins_watch(NULL);
}

void later_after_fork_child(void)
{
    pthread_mutex_init(&sums_lock, NULL);
    atomic_store(&session, 0);
    origins_after_fork_child();
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
        *piece = (struct piece){.session = running};
        bool found = origin_find(maker, number, &p->hint, &piece->origin);
        if (!found)
            piece->origin = (struct origin){0};
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
    struct pieces *p = (struct pieces *)causes_mine;
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
    uint64_t took = now > piece->since ? now - piece->since : 0;
    if (at)
        p->at[at - 1].inner += took;
    uint32_t number = names_number(&names, name);
    add(piece, number, p->tid, now);
}

const struct later_api later_api = {origins_watch, begin, end};
