/* Without the GIL nothing keeps the session from ending but this: each thread marks that it is inside, and only then
 * looks whether there is a session; who ends it takes it away, and only then waits until nobody is inside. */
#include "current_frame.h" /* first: it defines Py_BUILD_CORE */

#include "native_region.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "call_tree.h"
#include "clock.h"
#include "listener.h"
#include "region_stack.h"

/* A thread that has come without the GIL. */
struct visitor {
    struct visitor *next;
    _Atomic int
        inside; /* also of those with the GIL: a signal handler of the program's is not let in */
    bool is_listed;
};

static __thread struct visitor mine;
static struct visitor *visitors;
static pthread_mutex_t visitors_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t visitor_key;
static pthread_once_t visitor_key_once = PTHREAD_ONCE_INIT;

static const struct region_session *session;
static _Atomic uint32_t current; /* the session that runs; 0: none */
static _Atomic uint64_t n_unplaced, n_unmatched;

#define LIBRARIES 8 /* the one of pyhybrid.h, and those of tools */
static pyhybrid_values_call *_Atomic read_values[LIBRARIES];

static void on_thread_end(void *unused)
{
    (void)unused;
    atomic_store(&mine.inside, 0); /* it may have been cancelled there */
    pthread_mutex_lock(&visitors_lock);
    struct visitor **at = &visitors;
    while (*at && *at != &mine)
        at = &(*at)->next;
    if (*at)
        *at = mine.next;
    mine.is_listed = false;
    pthread_mutex_unlock(&visitors_lock);
}

static void make_key(void)
{
    pthread_key_create(&visitor_key, on_thread_end);
}

static void be_listed(void)
{
    pthread_once(&visitor_key_once, make_key);
    pthread_setspecific(visitor_key, &mine);
    pthread_mutex_lock(&visitors_lock);
    mine.next = visitors;
    visitors = &mine;
    mine.is_listed = true;
    pthread_mutex_unlock(&visitors_lock);
}

void native_region_settle(void)
{
    pthread_mutex_lock(&visitors_lock);
    for (struct visitor *v = visitors; v; v = v->next)
        for (int tries = 0; v != &mine && atomic_load(&v->inside); tries++)
            if (tries < 100)
                sched_yield();
            else
                clock_sleep_ns(20000);
    pthread_mutex_unlock(&visitors_lock);
}

void native_region_after_fork_child(void)
{
    pthread_mutex_init(&visitors_lock, NULL);
    visitors = mine.is_listed ? &mine : NULL;
    mine.next = NULL;
    atomic_store(&current, 0);
}

struct native_region_losses native_region_close(void)
{
    atomic_store(&current, 0);
    native_region_settle();
    return (struct native_region_losses){atomic_load(&n_unplaced), atomic_load(&n_unmatched)};
}

/* --- one push or pop --------------------------------------------------------------------------------- */

struct visit {
    uint32_t generation;
    struct exact *exact; /* NULL: only samples, or a pause */
    const frame_t *frame;
    bool has_gil, is_elsewhere; /* in another interpreter */
};

static const frame_t *innermost(PyThreadState *state)
{
    const frame_t *f = state ? frame_of_state(state) : NULL;
    while (f && FRAME_IS_ENTRY(f))
        f = f->previous;
    return f;
}

/* False: no session runs, or the thread is inside already. */
static bool begin(struct visit *v)
{
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        return false;
    PyThreadState *state = current_state_by_call();
    bool is_main = state && state->interp == PyInterpreterState_Main();
    v->has_gil = is_main;
    v->is_elsewhere = state && !is_main;
    if (atomic_load_explicit(&mine.inside, memory_order_relaxed))
        return false;
    if (v->has_gil) {
        atomic_store_explicit(&mine.inside, 1, memory_order_relaxed);
    } else {
        if (!mine.is_listed)
            be_listed();
        atomic_store(&mine.inside, 1); /* before it looks */
    }
    v->generation = atomic_load(&current);
    v->exact = v->generation ? atomic_load(&exact_current) : NULL;
    if (!v->has_gil && v->exact && !v->exact->counts)
        v->exact = NULL; /* for sinks alone, which do not get it */
    if (!v->generation) {
        atomic_store_explicit(&mine.inside, 0, memory_order_release);
        return false;
    }
    if (!state) {
        state = PyGILState_GetThisThreadState();
        v->is_elsewhere = state && state->interp != PyInterpreterState_Main();
    }
    v->frame = v->is_elsewhere ? NULL : innermost(state);
    return true;
}

static void end(void)
{
    atomic_store_explicit(&mine.inside, 0, memory_order_release);
}

static void announce(struct pyhybrid_region *region, const struct visit *v)
{
    int before;
    uint32_t none = 0;
    /* A cancelled thread would leave with the spool's lock. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (!atomic_load(&region->number))
        atomic_compare_exchange_strong(&region->number, &none, region_new_number());
    if (atomic_exchange(&region->recorded, v->generation) != v->generation)
        session->announce(atomic_load(&region->number), region->name, region->length);
    if (v->has_gil && atomic_exchange(&region->emitted, v->generation) != v->generation)
        session->emit(atomic_load(&region->number), region->name, region->length);
    pthread_setcancelstate(before, &before);
}

static void push(struct pyhybrid_region *region)
{
    struct visit v;
    if (!begin(&v))
        return;
    if (atomic_load_explicit(&region->recorded, memory_order_relaxed) != v.generation ||
        (v.has_gil && atomic_load_explicit(&region->emitted, memory_order_relaxed) != v.generation))
        announce(region, &v);
    uint64_t word = frame_region(atomic_load_explicit(&region->number, memory_order_relaxed));
    struct region_slot *slot = NULL;
    if (!v.is_elsewhere)
        slot = region_list_next(word, v.frame ? (uint64_t)v.frame : REGION_OF_THREAD,
                                v.frame ? FRAME_CODE(v.frame) : 0, true);
    bool is_placed = slot && (!v.exact || region_push_native(v.exact, v.frame, slot, v.has_gil));
    if (slot)
        region_list_add(slot); /* (see region.c) */
    if (!is_placed)
        atomic_fetch_add_explicit(&n_unplaced, 1, memory_order_relaxed);
    end();
}

/* Empties the slots of the innermost region with this word (0: any), and of native ones pushed since.  Returns its word;
 * 0: there is none. */
static uint64_t close_slots(struct regions *r, uint64_t word)
{
    uint32_t i = r ? r->n : 0;
    while (i && !(r->slots[i - 1].is_native && r->slots[i - 1].frame &&
                  (!word || r->slots[i - 1].word == word)))
        i--;
    if (!i)
        return 0;
    word = r->slots[i - 1].word;
    for (i--; i < r->n; i++)
        if (r->slots[i].is_native)
            r->slots[i].frame = 0;
    region_list_trim(r);
    return word;
}

static void pop(struct pyhybrid_region *region)
{
    struct visit v;
    if (!begin(&v))
        return;
    uint64_t word =
        region ? frame_region(atomic_load_explicit(&region->number, memory_order_relaxed)) : 0;
    if (!(word = close_slots(regions_this_thread, word)))
        atomic_fetch_add_explicit(&n_unmatched, 1, memory_order_relaxed);
    else if (v.exact)
        region_pop_native(v.exact, word, v.has_gil);
    end();
}

static uint32_t running(void)
{
    return atomic_load_explicit(&current, memory_order_relaxed);
}

static const struct pyhybrid_listener listener = {push, pop, running};

void native_region_listen(pyhybrid_listen_call *listen)
{
    pyhybrid_values_call *read = listen(&listener), *none = NULL;
    for (int i = 0; i < LIBRARIES; i++, none = NULL)
        if (atomic_compare_exchange_strong(&read_values[i], &none, read) || none == read)
            return;
}

void native_region_values(uint32_t generation, const struct pyhybrid_values *to)
{
    pyhybrid_values_call *read;
    for (int i = 0; i < LIBRARIES && (read = atomic_load(&read_values[i])); i++)
        read(generation, to);
}

/* libpyhybrid.so lies beside us.  If it comes later it finds us (capi/regions.c). */
static void find_library(void)
{
    Dl_info own;
    char path[PATH_MAX];
    if (!dladdr((void *)find_library, &own) || !own.dli_fname)
        return;
    const char *name = strrchr(own.dli_fname, '/');
    int folder = name ? (int)(name + 1 - own.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*slibpyhybrid.so", folder, own.dli_fname);
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    pyhybrid_listen_call *listen = NULL;
    if (library)
        listen = (pyhybrid_listen_call *)dlsym(library, PYHYBRID_LISTEN);
    if (listen)
        native_region_listen(listen);
}

void native_region_init(const struct region_session *of)
{
    session = of;
}

void native_region_open(uint32_t generation)
{
    find_library();
    atomic_store(&n_unplaced, 0);
    atomic_store(&n_unmatched, 0);
    atomic_store(&current, generation);
}
