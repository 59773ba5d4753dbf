/* kernel_ticks.h - where in the kernel a thread's clock ticked, until the sample comes that it belongs to.
 *
 * A clock ticks on while the kernel works for a thread, and the thread gets one signal at the end: the
 * sample's weight belongs to its last ticks, in equal parts.  Ticks before one that came in the program
 * belong to other stacks (the signal was blocked), and so do more than the weight says (samples were lost).
 *
 * Context: the drain thread.
 */
#ifndef PYH_KERNEL_TICKS_H
#define PYH_KERNEL_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tick {
    uint64_t time_ns;
    uint32_t chain, pad; /* where in the kernel, by the caller's numbers; 0: in the program */
};

/* Those that no sample has taken yet, in order of time.  Zeroed at first. */
struct kernel_ticks {
    struct tick *of;
    size_t bytes, n;
};

/* They need not come in order.  False: no memory. */
bool kernel_ticks_add(struct kernel_ticks *t, uint64_t time_ns, uint32_t chain);
void kernel_ticks_free(struct kernel_ticks *t);

/* The parts of one sample: ticks in a row at the same place are one. */
struct tick_parts {
    const struct tick *of;
    size_t n, from, at; /* n: ticks that the sample takes, 0: nothing is known */
    uint64_t time_ns;
    uint32_t weight, given;
};

struct tick_part {
    uint64_t time_ns;
    uint32_t weight, chain;
    bool last;
};

struct tick_parts kernel_ticks_of_sample(const struct kernel_ticks *t, uint64_t time_ns,
                                         uint32_t weight);
bool kernel_ticks_next(struct tick_parts *p, struct tick_part *part); /* false: there is none */

/* The sample has them. */
void kernel_ticks_drop(struct kernel_ticks *t, const struct tick_parts *p);

#endif
