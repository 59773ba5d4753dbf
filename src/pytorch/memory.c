/* memory.c - what PyTorch's CPU allocator has given out, by the call that asked for it.
 *
 * c10::SetCPUAllocator, which is there for that, gets an allocator whose table of virtual functions is a copy of the usual
 * one's, with ours in place of `allocate`: it asks the usual one, and puts in what is returned the function that is called
 * when the memory is given back.  Where those stand is proven at run time: until then ours only passes on.  What is asked for
 * past the allocator (by NumPy, by libraries) is not seen, as torch.profiler does not see it.
 *
 * All that lives is in a table of a bounded size, which is searched without a lock: an address is alive once.  What found no
 * room is counted.  A call's bytes are kept of some moments: when the most was alive, before a forward pass, when the backward
 * pass after it began, and after that.
 *
 * Sources: c10/core/Allocator.h, c10/core/CPUAllocator.h, c10/util/UniqueVoidPtr.h of PyTorch 2.2 to 2.15.
 *
 * Context: what is given out and back on any thread, with or without the GIL; the rest with it.
 */
#include "pytorch.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TABLE_WORDS 32 /* of virtual functions: more than any version's has */
#define BEFORE 2       /* words before the first: the ABI's */
#define ALLOCATE 2     /* behind two destructors */
#define RETURNED_WORDS 3
#define NEAR 16 /* places at which an address may be */

typedef uint64_t virtual_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static const struct backward_api *api;
static uint64_t (*current_allocator)(void);
static void (*set_allocator)(void *, uint8_t priority);
static uint64_t usual; /* the allocator's object; 0: not found */
static uint64_t own_table[TABLE_WORDS];
static uint64_t own_object[8]; /* it has no members but the table's address */
static virtual_function *usual_allocate;
static void (*usual_give_back)(void *);
static uint32_t give_back_at; /* the word of what is returned that has it; 0: not proven */
static _Atomic bool follows;
static _Atomic uint32_t session; /* 16 bits; 0: none */

/* --- by call ---------------------------------------------------------------------------------------- */

/* A call: 1 << 62, is_later << 63, its thread << 32, its node. */
#define KEY_USED (1ull << 62)
#define KEY_LATER (1ull << 63)

static struct site {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint32_t number;
    _Atomic int64_t alive;
    _Atomic uint64_t allocated, calls;
    int64_t at_peak, base, kept, used;
} sites[MEMORY_SITES];           /* by hash */
static _Atomic uint32_t n_sites; /* half of them, at most */
static _Atomic uint16_t in_order[MEMORY_SITES / 2];

/* What lives.  Where an address may be is looked at as a whole: two cache lines. */
static _Atomic uint64_t addresses[MEMORY_TABLE + NEAR]; /* 0: free */
static struct {
    uint64_t bytes;
    uint32_t site, step;
    uint32_t session;
} table[MEMORY_TABLE + NEAR];

static _Atomic uint64_t alive, step_peak, peak, noted_peak, n_lost, lost_bytes, most_kept;
static _Atomic uint32_t step;
static _Atomic bool is_noting;

static uint64_t hash_of(uint64_t key)
{
    return key * 0x9e3779b97f4a7c15ull;
}

static uint32_t site_of(uint64_t key)
{
    uint32_t at = (uint32_t)(hash_of(key) >> 40) % MEMORY_SITES;
    for (uint32_t tries = 0; tries < NEAR; tries++, at = (at + 1) % MEMORY_SITES) {
        uint64_t found = atomic_load_explicit(&sites[at].key, memory_order_acquire);
        if (found == key)
            return at;
        if (found)
            continue;
        if (atomic_load(&n_sites) >= MEMORY_SITES / 2)
            break;
        if (!atomic_compare_exchange_strong(&sites[at].key, &found, key)) {
            if (found == key)
                return at;
            continue;
        }
        uint32_t number = atomic_fetch_add(&n_sites, 1);
        if (number >=
            MEMORY_SITES / 2) /* others were as late: it has no number, and is not shown */
            break;
        atomic_store(&in_order[number], (uint16_t)at);
        return at;
    }
    return 0; /* [other]: see start */
}

static uint64_t key_here(void)
{
    struct maker place;
    bool is_later;
    api->here(&place, &is_later);
    return KEY_USED | (is_later ? KEY_LATER : 0) | (uint64_t)(place.thread & 0x3fffffff) << 32 |
           place.node;
}

static struct site *nth(uint32_t number)
{
    return &sites[atomic_load_explicit(&in_order[number], memory_order_relaxed)];
}

static uint32_t sites_used(void)
{
    uint32_t n = atomic_load(&n_sites);
    return n < MEMORY_SITES / 2 ? n : MEMORY_SITES / 2;
}

/* Keeps what each call has now, for this is the most until now. */
static __attribute__((noinline)) void note_peak(uint64_t now)
{
    if (atomic_exchange_explicit(&is_noting, true, memory_order_acquire))
        return;
    for (uint32_t i = 0, n = sites_used(); i < n; i++)
        nth(i)->at_peak = atomic_load_explicit(&nth(i)->alive, memory_order_relaxed);
    atomic_store(&noted_peak, now);
    atomic_store_explicit(&is_noting, false, memory_order_release);
}

static void raise_to(_Atomic uint64_t *most, uint64_t now)
{
    uint64_t known = atomic_load_explicit(most, memory_order_relaxed);
    while (now > known && !atomic_compare_exchange_weak(most, &known, now))
        ;
}

static uint32_t first_place(uint64_t address)
{
    return (uint32_t)(hash_of(address) >> 40) % MEMORY_TABLE;
}

/* The place of what lives at that address; MEMORY_TABLE + NEAR: it has none. */
static uint32_t place_of(uint64_t address)
{
    for (uint32_t at = first_place(address), end = at + NEAR; at < end; at++)
        if (atomic_load_explicit(&addresses[at], memory_order_acquire) == address)
            return at;
    return MEMORY_TABLE + NEAR;
}

static void forget(uint32_t at)
{
    if (table[at].session == atomic_load_explicit(&session, memory_order_relaxed)) {
        uint64_t bytes = table[at].bytes;
        atomic_fetch_sub_explicit(&sites[table[at].site].alive, (int64_t)bytes,
                                  memory_order_relaxed);
        atomic_fetch_sub_explicit(&alive, bytes, memory_order_relaxed);
    }
    atomic_store_explicit(&addresses[at], 0, memory_order_release);
}

static bool keep(uint64_t address, uint64_t bytes)
{
    uint32_t late = place_of(address);
    if (late < MEMORY_TABLE + NEAR) /* it was given back past us (Allocator::raw_deallocate) */
        forget(late);
    for (uint32_t at = first_place(address), end = at + NEAR; at < end; at++) {
        uint64_t none = 0;
        if (atomic_load_explicit(&addresses[at], memory_order_relaxed) ||
            !atomic_compare_exchange_strong(&addresses[at], &none, address))
            continue;
        uint32_t site = site_of(key_here());
        table[at].bytes = bytes;
        table[at].site = site;
        table[at].step = atomic_load_explicit(&step, memory_order_relaxed);
        table[at].session = atomic_load_explicit(&session, memory_order_relaxed);
        atomic_fetch_add_explicit(&sites[site].alive, (int64_t)bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&sites[site].allocated, bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&sites[site].calls, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

static void give_back(void *memory)
{
    uint32_t at = memory ? place_of((uint64_t)memory) : MEMORY_TABLE + NEAR;
    if (at < MEMORY_TABLE + NEAR)
        forget(at);
    usual_give_back(memory);
}

static void follow(uint64_t *returned, uint64_t bytes)
{
    if (!returned[0] || returned[give_back_at] != (uint64_t)usual_give_back)
        return; /* of no bytes, or not the usual memory */
    if (!keep(returned[0], bytes)) {
        atomic_fetch_add_explicit(&n_lost, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&lost_bytes, bytes, memory_order_relaxed);
        return;
    }
    returned[give_back_at] = (uint64_t)give_back;
    uint64_t now = atomic_fetch_add_explicit(&alive, bytes, memory_order_relaxed) + bytes;
    raise_to(&step_peak, now);
    raise_to(&peak, now);
    uint64_t noted = atomic_load_explicit(&noted_peak, memory_order_relaxed);
    if (now > noted + noted / MEMORY_PEAK_PART)
        note_peak(now);
}

/* --- the proof -------------------------------------------------------------------------------------- */

static pthread_t prover;
static _Atomic bool is_proving;
static uint32_t n_passed; /* of the prover's, since the last comparison */
static uint64_t passed_bytes, passed_words[RETURNED_WORDS];
static bool may_be[RETURNED_WORDS], is_refuted;
static uint32_t n_compared;

/* In place of the virtual function `allocate`: it returns in memory, whose address comes first. */
static uint64_t on_allocate(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    a = a == (uint64_t)own_object ? usual : a;
    b = b == (uint64_t)own_object ? usual : b;
    uint64_t result = usual_allocate(a, b, c, d, e, f);
    if (atomic_load_explicit(&follows, memory_order_relaxed)) {
        follow((uint64_t *)a, c);
    } else if (is_proving && pthread_equal(prover, pthread_self())) {
        struct iovec here = {passed_words, sizeof passed_words};
        struct iovec there = {(void *)a, sizeof passed_words};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sizeof passed_words)
            memset(passed_words, 0, sizeof passed_words);
        passed_bytes = c;
        n_passed++;
        is_refuted |= result != a || b != usual;
    }
    return result;
}

const char *memory_proof_begin(const char *path)
{
    if (usual) /* of an earlier session, or of the parent of this forked child */
        return NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return "its library is not loaded";
    const uint64_t *virtuals = dlsym(handle, "_ZTVN3c1019DefaultCPUAllocatorE");
    *(void **)&current_allocator = dlsym(handle, "_ZN3c1015GetCPUAllocatorEv");
    *(void **)&set_allocator = dlsym(handle, "_ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh");
    if (!virtuals || !current_allocator || !set_allocator)
        return "the CPU allocator's symbols";
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1(virtuals, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return "the size of its table";
    uint64_t n = symbol->st_size / 8, object = current_allocator();
    if (n < BEFORE + ALLOCATE + 1 || n > TABLE_WORDS)
        return "the size of its table";
    if (!object || *(uint64_t *)object != (uint64_t)&virtuals[BEFORE])
        return "the usual CPU allocator: the program has another one";
    memcpy(own_table, virtuals, n * 8);
    usual_allocate = (virtual_function *)own_table[BEFORE + ALLOCATE];
    own_table[BEFORE + ALLOCATE] = (uint64_t)on_allocate;
    own_object[0] = (uint64_t)&own_table[BEFORE];
    usual = object;
    prover = pthread_self();
    memset(may_be, 1, sizeof may_be);
    n_passed = n_compared = 0;
    is_refuted = false;
    is_proving = true;
    set_allocator(own_object, 0);
    if (current_allocator() != (uint64_t)own_object)
        return "that the CPU allocator can be replaced";
    return NULL;
}

void memory_proof_compare(uint64_t address, uint64_t bytes)
{
    if (!is_proving)
        return;
    is_refuted |= n_passed != 1 || passed_bytes != bytes || passed_words[0] != address;
    Dl_info info, of_library;
    for (uint32_t i = 1; i < RETURNED_WORDS; i++) {
        bool is_function = passed_words[i] != address && dladdr((void *)passed_words[i], &info) &&
                           dladdr((void *)current_allocator, &of_library) &&
                           info.dli_fbase == of_library.dli_fbase;
        may_be[i] &= is_function && (!n_compared || passed_words[i] == (uint64_t)usual_give_back);
        if (may_be[i])
            *(uint64_t *)&usual_give_back = passed_words[i];
        is_refuted |= !is_function && passed_words[i] != address;
    }
    n_passed = 0;
    n_compared++;
}

const char *memory_proof_end(const struct backward_api *of)
{
    api = of;
    is_proving = false;
    if (give_back_at)
        return NULL;
    uint32_t n = 0;
    for (uint32_t i = 1; i < RETURNED_WORDS; i++)
        if (may_be[i]) {
            give_back_at = i;
            n++;
        }
    if (!usual || is_refuted || n != 1 || n_compared < 3) {
        give_back_at = 0;
        if (usual && current_allocator() == (uint64_t)own_object)
            set_allocator((void *)usual, 0);
        usual = 0;
        return "what the CPU allocator returns";
    }
    return NULL;
}

/* --- a session -------------------------------------------------------------------------------------- */

const char *memory_start(void)
{
    if (!give_back_at)
        return "what the CPU allocator returns";
    follows = false;
    if (current_allocator() == usual)
        set_allocator(own_object, 0);
    if (current_allocator() != (uint64_t)own_object)
        return "the usual CPU allocator: the program has another one";
    session = (session % 0xffff) + 1;
    memset(sites, 0, sizeof sites);
    sites[0].key = KEY_USED | 0xffffffff; /* [other]: of no call */
    in_order[0] = 0;
    n_sites = 1;
    alive = step_peak = peak = noted_peak = n_lost = lost_bytes = most_kept = 0;
    step = 0;
    is_noting = false;
    follows = true;
    return NULL;
}

void memory_stop(void)
{
    if (!follows)
        return;
    follows = false;
    if (current_allocator() == (uint64_t)own_object)
        set_allocator((void *)usual, 0);
}

struct memory_totals memory_totals(void)
{
    return (struct memory_totals){alive, step_peak, peak, noted_peak, n_lost, lost_bytes};
}

struct memory_totals memory_step(void)
{
    struct memory_totals totals = memory_totals();
    atomic_store(&step_peak, totals.alive);
    atomic_fetch_add(&step, 1);
    return totals;
}

static int64_t more_than_base(const struct site *s)
{
    int64_t now = atomic_load_explicit(&s->alive, memory_order_relaxed);
    return now > s->base ? now - s->base : 0;
}

void memory_mark(enum memory_moment moment)
{
    static bool is_most;
    uint64_t all = 0;
    uint32_t n = sites_used();
    for (uint32_t i = 0; i < n; i++) {
        struct site *s = nth(i);
        if (moment == MEMORY_FORWARD)
            s->base = atomic_load_explicit(&s->alive, memory_order_relaxed);
        else if (moment == MEMORY_BACKWARD)
            all += (uint64_t)more_than_base(s);
        else if (is_most && s->kept > more_than_base(s))
            s->used = s->kept - more_than_base(s);
    }
    is_most = moment == MEMORY_BACKWARD && all > most_kept;
    if (!is_most)
        return;
    most_kept = all;
    for (uint32_t i = 0; i < n; i++) {
        nth(i)->kept = more_than_base(nth(i));
        nth(i)->used = 0;
    }
}

bool memory_site(uint32_t number, struct memory_site *to)
{
    if (number >= sites_used())
        return false;
    struct site *s = nth(number);
    *to = (struct memory_site){.thread = (uint32_t)(s->key >> 32) & 0x3fffffff,
                               .node = (uint32_t)s->key,
                               .is_later = s->key & KEY_LATER,
                               .alive = s->alive,
                               .allocated = s->allocated,
                               .calls = s->calls,
                               .at_peak = s->at_peak,
                               .kept = s->kept,
                               .used = s->used};
    if (to->node == 0xffffffff)
        to->node = to->thread = 0;
    return true;
}

uint32_t memory_alive_of(uint32_t number, struct memory_piece *to, uint32_t most)
{
    uint32_t n = 0, site = number < sites_used() ? in_order[number] : MEMORY_SITES;
    for (uint32_t at = 0; at < MEMORY_TABLE + NEAR; at++) {
        if (!addresses[at] || table[at].site != site || table[at].session != session)
            continue;
        struct memory_piece piece = {addresses[at], table[at].bytes, table[at].step};
        uint32_t i = n < most ? n++ : most;
        for (; i && to[i - 1].step > piece.step; i--) /* the oldest come first */
            if (i < most)
                to[i] = to[i - 1];
        if (i < most)
            to[i] = piece;
    }
    return n;
}
