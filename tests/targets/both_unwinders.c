/* Both unwinders on the same stacks: what the sampler takes for another unwinder (--unwinder libunwind) walks
 * each stack with our own one and with libunwind, times both, and compares.
 *
 *     both_start(cache_size)   before the profiler starts; cache_size: of libunwind, 0: as it comes
 *     both_write(path)         what it saw, as JSON
 *
 * No anchors: only what unwind information says is compared.  libunwind calls dl_iterate_phdr in the handler,
 * so the program should load no library meanwhile.  It reads what hand-written code's unwind information says
 * without a look whether it is there: such a walk of its ends, and is counted.  Links src/unwind/unwind.c and what it needs.
 */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "memread.h"
#include "stack_bounds.h"
#include "unwind.h"

#define EXPORT __attribute__((visibility("default")))
#define FRAMES_MAX 512
#define WALKERS_MAX 256
#define SAMPLES_MAX 400000
#define EXAMPLES_MAX 20

size_t libunwind_walk(void *context, struct native_frame *out, size_t max, enum unwind_end *end);
EXPORT size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max,
                                 enum unwind_end *end);
EXPORT int both_start(long cache_size);
EXPORT int both_write(const char *path);

struct walker {
    struct unwind unwind;
    struct native_frame own[FRAMES_MAX], theirs[FRAMES_MAX];
    enum unwind_end end; /* of ours */
};

/* Of one sample. */
struct result {
    uint32_t own_ns, their_ns;
    uint16_t frames, own_first, differs_at; /* from 1 on; 0: they do not */
    uint16_t finished;                      /* libunwind came to the thread's root */
};

struct example {
    uint64_t at_pc, own_pc, own_cfa, their_pc, their_cfa;
    uint32_t result;
};

static struct walker walkers[WALKERS_MAX];
static _Atomic uint32_t n_walkers, n_results, n_examples;
static struct result results[SAMPLES_MAX];
static struct example examples[EXAMPLES_MAX];
static uint64_t main_stack_high;
static __thread struct walker *mine;
static _Atomic uint32_t n_their_faults;
static __thread volatile sig_atomic_t in_theirs;
static __thread sigjmp_buf out_of_theirs;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Where the walks part, from 1 on; 0: nowhere.  The CFA of a signal's trampoline is a matter of convention. */
static size_t difference(struct walker *w, size_t n_own, size_t n_theirs)
{
    for (size_t i = 0; i < n_own && i < n_theirs; i++)
        if (w->own[i].flags || w->own[i].pc != w->theirs[i].pc ||
            (w->own[i].cfa != w->theirs[i].cfa &&
             unwind_rule(&w->unwind, w->own[i].pc).cfa_kind != CFA_SIGNAL))
            return i + 1;
    return n_own == n_theirs ? 0 : (n_own < n_theirs ? n_own : n_theirs);
}

static void note_example(struct walker *w, uint32_t number, size_t at)
{
    uint32_t i = atomic_fetch_add(&n_examples, 1);
    if (i < EXAMPLES_MAX)
        examples[i] =
            (struct example){w->own[at ? at - 1 : 0].pc, w->own[at].pc,     w->own[at].cfa,
                             w->theirs[at].pc,           w->theirs[at].cfa, number};
}

/* It takes code without unwind information for the end of the stack, or guesses. */
static bool has_information(struct walker *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (unwind_rule(&w->unwind, w->theirs[i].pc).cfa_kind == CFA_NONE)
            return false;
    return n != 0;
}

static void on_fault(int number)
{
    if (in_theirs)
        siglongjmp(out_of_theirs, 1);
    signal(number, SIG_DFL); /* ours, or the program's: it comes again */
}

static size_t walk_theirs(void *context, struct native_frame *out, enum unwind_end *end)
{
    size_t n = 0;
    if (sigsetjmp(out_of_theirs, 0)) {
        atomic_fetch_add(&n_their_faults, 1);
        *end = UNWIND_TRUNCATED;
    } else {
        in_theirs = 1;
        n = libunwind_walk(context, out, FRAMES_MAX, end);
    }
    in_theirs = 0;
    return n;
}

static size_t compare(struct walker *w, struct unwind_regs *regs, void *context, uint32_t number)
{
    struct result *r = &results[number];
    enum unwind_end their_end;
    size_t n = 0, n_theirs = 0;
    r->own_first = number & 1; /* who goes first finds the stack's lines cold */
    for (int turn = 0; turn < 2; turn++) {
        uint64_t began = now_ns();
        if ((turn == 0) == r->own_first) {
            n = unwind_walk(&w->unwind, regs, w->own, FRAMES_MAX, &w->end);
            r->own_ns = (uint32_t)(now_ns() - began);
        } else {
            n_theirs = walk_theirs(context, w->theirs, &their_end);
            r->their_ns = (uint32_t)(now_ns() - began);
        }
    }
    r->frames = (uint16_t)n;
    r->finished = their_end == UNWIND_COMPLETE && has_information(w, n_theirs);
    r->differs_at = (uint16_t)(r->finished ? difference(w, n, n_theirs) : 0);
    if (r->differs_at)
        note_example(w, number, r->differs_at - 1u);
    return n;
}

size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max, enum unwind_end *end)
{
    *end = UNWIND_TRUNCATED;
    if (!mine) {
        uint32_t i = atomic_fetch_add(&n_walkers, 1);
        if (i >= WALKERS_MAX)
            return 0;
        mine = &walkers[i];
    }
    uint32_t number = atomic_fetch_add(&n_results, 1);
    if (number >= SAMPLES_MAX)
        return 0;
    struct unwind_regs regs;
    arch_regs_from_context(&regs, context);
    stack_bounds_update(&mine->unwind, regs.sp, main_stack_high);
    size_t n = compare(mine, &regs, context, number);
    if (n > max)
        return 0;
    memcpy(out, mine->own, n * sizeof *out);
    *end = mine->end;
    return n;
}

int both_start(long cache_size)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    uint64_t low, high;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &low, &high) == 2)
            main_stack_high = high;
    if (maps)
        fclose(maps);
    /* The frames where a fault is caught are left, so it must not stay blocked. */
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    return sigaction(SIGSEGV, &action, NULL) || memread_init() || !main_stack_high ||
           (cache_size && unw_set_cache_size(unw_local_addr_space, (size_t)cache_size, 0));
}

static void put_place(FILE *f, const char *name, uint64_t pc)
{
    Dl_info info;
    const char *file =
        dladdr((void *)pc, &info) && info.dli_fname ? info.dli_fname : "?"; /* NOLINT */
    uint64_t base = *file == '?' ? 0 : (uint64_t)info.dli_fbase;
    fprintf(f, "\"%s\": \"%s+%#lx\", ", name, file, pc - base);
}

int both_write(const char *path)
{
    uint32_t n = atomic_load(&n_results), n_shown = atomic_load(&n_examples);
    FILE *f = fopen(path, "we");
    if (!f)
        return -1;
    n = n < SAMPLES_MAX ? n : SAMPLES_MAX;
    fputs("{\"fields\": [\"own_ns\", \"their_ns\", \"frames\", \"own_first\", \"finished\", "
          "\"differs_at\"],\n\"samples\": [",
          f);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%s[%u,%u,%u,%u,%u,%u]", i ? "," : "", results[i].own_ns, results[i].their_ns,
                results[i].frames, results[i].own_first, results[i].finished,
                results[i].differs_at);
    fprintf(f, "],\n\"their_faults\": %u,\n\"differences\": [", atomic_load(&n_their_faults));
    for (uint32_t i = 0; i < n_shown && i < EXAMPLES_MAX; i++) {
        const struct example *e = &examples[i];
        fprintf(f, "%s{", i ? ",\n " : "");
        put_place(f, "below", e->at_pc);
        put_place(f, "own", e->own_pc);
        put_place(f, "theirs", e->their_pc);
        fprintf(f, "\"own_cfa\": %lu, \"their_cfa\": %lu, \"sample\": %u}", e->own_cfa,
                e->their_cfa, e->result);
    }
    fputs("]}\n", f);
    return fclose(f);
}
