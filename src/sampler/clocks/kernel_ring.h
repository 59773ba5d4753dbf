/* kernel_ring.h - where in the kernel a thread was when its clock ticked, as perf writes it.
 *
 * A signal waits until the kernel goes back to the program: its handler sees the system call's caller,
 * or the instruction that met a page fault.  The event writes at the very moment into a ring that it
 * shares with us (man 2 perf_event_open, "MMAP layout"): the time and the kernel's call chain.  Such
 * records and samples meet in drain.c.
 *
 * Context: the collector thread; sampler_pause, sampler_stop.
 */
#ifndef PYH_KERNEL_RING_H
#define PYH_KERNEL_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel_ring {
    void *pages; /* NULL: none */
    size_t bytes;
};

/* Maps the ring of event `fd`, `size` bytes (a power of two); there is none where the kernel refuses (its limit on
 * locked memory).  It keeps the event open until it is unmapped. */
void kernel_ring_map(struct kernel_ring *r, int fd, size_t size);
void kernel_ring_unmap(struct kernel_ring *r);

/* Takes a record: the thread, CLOCK_MONOTONIC, the instruction, and addresses, innermost first; none: it was in the
 * program. */
typedef void (*kernel_ring_take)(void *arg, pid_t tid, uint64_t time_ns, uint64_t at,
                                 const uint64_t *chain, size_t n);

/* Takes all that is there.  Returns how many records are lost: the kernel found no room. */
uint64_t kernel_ring_read(struct kernel_ring *r, kernel_ring_take take, void *arg);

#endif
