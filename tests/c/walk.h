/* walk.h - walks of the calling thread's own stack, as the sampler makes them.
 *
 * Who walks from a ucontext that getcontext() filled must still be in the function that called it.
 */
#ifndef PYH_TEST_WALK_H
#define PYH_TEST_WALK_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "unit.h"
#include "unwind.h"

#define WALK_MAX 256

struct walk {
    struct native_frame frames[WALK_MAX];
    size_t n;
    enum unwind_end end;
};

/* Keeps the call above it from becoming a jump. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

static inline uint64_t walk_stack_end(void)
{
    static _Thread_local uint64_t end;
    if (end)
        return end;
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    return end = (uint64_t)low + size;
}

/* An unwinder for the calling thread, whose stack is in use from `sp` on. */
static inline struct unwind walk_unwinder(uint64_t sp)
{
    return (struct unwind){.stack_low = sp & ~4095ull, .stack_high = walk_stack_end()};
}

static inline void walk_with(struct unwind *u, const ucontext_t *context, struct walk *w)
{
    struct unwind_regs regs;
    arch_regs_from_context(&regs, context);
    memset(w, 0, sizeof *w);
    w->n = unwind_walk(u, &regs, w->frames, WALK_MAX, &w->end);
}

static inline void walk_from(const ucontext_t *context, struct walk *w)
{
    struct unwind u = walk_unwinder((uint64_t)context->uc_mcontext.gregs[REG_RSP]);
    walk_with(&u, context, w);
}

static inline enum cfa_kind walk_kind(uint64_t pc)
{
    struct cfi_rule rule;
    cfi_find(pc, &rule);
    return (enum cfa_kind)rule.cfa_kind;
}

/* For a look at a walk that is not the wanted one. */
static inline void walk_print(const char *name, const struct walk *w)
{
    static const char *const ends[] = {"complete", "truncated", "too deep"};
    fprintf(stderr, "# %s: %zu frames, %s\n", name, w->n, ends[w->end]);
    for (size_t i = 0; i < w->n; i++)
        fprintf(stderr, "#   %2zu pc %#lx cfa %#lx flags %lu\n", i, (unsigned long)w->frames[i].pc,
                (unsigned long)w->frames[i].cfa, (unsigned long)w->frames[i].flags);
}

#endif
