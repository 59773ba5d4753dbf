/* memread.h - read memory that may not be there.
 *
 * The sampler follows pointers of a program that it interrupted anywhere.  What bounds do not
 * prove readable (the thread's stack, a module's image) goes through here: process_vm_readv on
 * ourselves, which answers EFAULT where a load would kill the program.  Where seccomp refuses
 * it, rt_sigprocmask with an invalid `how` shows whether a page can be read (the kernel copies
 * the new mask before it looks at `how`).
 *
 * Context: async-signal-safe after memread_init().
 */
#ifndef PYH_MEMREAD_H
#define PYH_MEMREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Finds out which way works.  Returns 0, or -errno if neither does.  Not async-signal-safe. */
int memread_init(void);

/* Returns whether the page around `address` can be read now.  It takes a seventh of a memread's time, but another
 * thread may unmap the page before it is used: for memory that the calling thread keeps alive, if it is what it seems
 * to be. */
bool memread_probe(uint64_t address);

/* Copies `n` bytes at `address` to `to`.  Returns false if they cannot all be read. */
bool memread(void *to, uint64_t address, size_t n);

/* Copies what the caller knows to be there, without a system call.  Returns true. */
static inline bool memread_known(void *to, uint64_t address, size_t n)
{
    memcpy(to, (const void *)address, n);
    return true;
}

/* The type of the two. */
typedef bool memread_way(void *to, uint64_t address, size_t n);

/* Returns whether the `n` bytes at `address` lie between `start` and `end`, for any values: what is taken for an
 * address may be a small negative number, to which nothing can be added. */
static inline bool memread_within(uint64_t start, uint64_t end, uint64_t address, size_t n)
{
    return address >= start && address <= end && end - address >= n;
}

/* Returns how many of the `n` pages from page-aligned `address` upward can be read, in one run. */
size_t memread_pages(uint64_t address, size_t n);

#endif
