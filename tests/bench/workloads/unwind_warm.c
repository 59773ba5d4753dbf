/* What a walk takes that was made before: chains of 10, 60 and 200 calls through 64 functions, by our own
 * unwinder and by libunwind's unw_step and unw_backtrace, in turn.  Prints {"DEPTH": [ns by each], ...}, the
 * best of many.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memread.h"
#include "unwind.h"

#define FRAMES_MAX 512
#define ROUNDS 400
#define WALKS 20 /* of ours in one round: the clock is not that fine */

size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max,
                          enum unwind_end *end);

static struct native_frame frames[FRAMES_MAX];
static uint64_t stack_high;
static double best[3];

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(size_t n, size_t expected, const enum unwind_end *end)
{
    if (n >= expected && *end == UNWIND_COMPLETE)
        return;
    fprintf(stderr, "%zu frames of at least %zu, end %d\n", n, expected, *end);
    exit(1);
}

/* The deepest of a chain of `depth`. */
__attribute__((noipa)) static void walk(size_t depth)
{
    struct unwind u = {.stack_high = stack_high};
    struct unwind_regs regs;
    ucontext_t here;
    enum unwind_end end;
    getcontext(&here);
    u.stack_low = (uint64_t)here.uc_mcontext.gregs[REG_RSP] & ~4095ull;
    arch_regs_from_context(&regs, &here);
    best[0] = best[1] = best[2] = 1e12;
    for (int round = 0; round < ROUNDS; round++) {
        static void *addresses[FRAMES_MAX];
        double times[4] = {now_ns()};
        for (int i = 0; i < WALKS; i++)
            check(unwind_walk(&u, &regs, frames, FRAMES_MAX, &end), depth, &end);
        times[1] = now_ns();
        check(pyh_unwind_backend(&here, frames, FRAMES_MAX, &end), depth, &end);
        times[2] = now_ns();
        for (int i = 0; i < WALKS; i++)
            check((size_t)unw_backtrace(addresses, FRAMES_MAX), depth, &end);
        times[3] = now_ns();
        double took[3] = {(times[1] - times[0]) / WALKS, times[2] - times[1],
                          (times[3] - times[2]) / WALKS};
        for (int i = 0; i < 3; i++)
            if (took[i] < best[i])
                best[i] = took[i];
    }
}

typedef void link_function(size_t depth, size_t left);
static link_function *links[64];

#define LINK(n, attribute, bytes)                                                                  \
    __attribute__((noipa, attribute)) static void link_##n(size_t depth, size_t left)              \
    {                                                                                              \
        volatile char room[bytes];                                                                 \
        room[0] = 0;                                                                               \
        if (left)                                                                                  \
            links[(n + 1) % 64](depth, left - 1);                                                  \
        else                                                                                       \
            walk(depth);                                                                           \
        room[0]++;                                                                                 \
    }
#define PLAIN optimize("omit-frame-pointer")
#define FRAMED optimize("no-omit-frame-pointer")
#define LINKS4(a, b, c, d)                                                                         \
    LINK(a, PLAIN, 8) LINK(b, PLAIN, 40) LINK(c, FRAMED, 24) LINK(d, PLAIN, 200)
#define LINKS16(p)                                                                                 \
    LINKS4(p##0, p##1, p##2, p##3)                                                                 \
    LINKS4(p##4, p##5, p##6, p##7)                                                                 \
    LINKS4(p##8, p##9, p##a, p##b)                                                                 \
    LINKS4(p##c, p##d, p##e, p##f)
LINKS16(0x0)
LINKS16(0x1)
LINKS16(0x2)
LINKS16(0x3)

#define NAMES4(a, b, c, d) link_##a, link_##b, link_##c, link_##d
#define NAMES16(p)                                                                                 \
    NAMES4(p##0, p##1, p##2, p##3), NAMES4(p##4, p##5, p##6, p##7),                                \
        NAMES4(p##8, p##9, p##a, p##b), NAMES4(p##c, p##d, p##e, p##f)
static link_function *links[64] = {NAMES16(0x0), NAMES16(0x1), NAMES16(0x2), NAMES16(0x3)};

int main(void)
{
    static const size_t depths[] = {10, 60, 200};
    char line[512];
    uint64_t low, high;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= (uint64_t)line &&
            (uint64_t)line < high)
            stack_high = high;
    if (memread_init() || !stack_high ||
        unw_set_cache_size(unw_local_addr_space, 1024, 0)) /* with its own, 128, it thrashes */
        return 1;
    for (size_t i = 0; i < 3; i++) {
        links[0](depths[i], depths[i] - 1);
        printf("%s\"%zu\": [%.1f, %.1f, %.1f]", i ? ", " : "{", depths[i], best[0], best[1],
               best[2]);
    }
    puts("}");
    return 0;
}
