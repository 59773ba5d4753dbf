/* loader_lock.h - dl_iterate_phdr, such that no fork comes into it.
 *
 * It holds a lock of the loader's that glibc's fork does not make new in the child (elf/dl-iteratephdr.c,
 * posix/fork.c: _dl_load_write_lock): forked just then, a child would wait for ever at its next dlopen.
 *
 * Context: threads, but never one that holds the GIL: who holds the loader's lock may wait for it.
 */
#ifndef PYH_LOADER_LOCK_H
#define PYH_LOADER_LOCK_H

#include <link.h>

int loader_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data);

/* Call them around what may call it by itself, as libgcc's unwinder does. */
void loader_keep_forks_out(void);
void loader_let_forks_in(void);

/* They are for pthread_atfork.  The first waits until no thread of ours is in it: for seconds if that has the loader's
 * lock, which only a busy machine makes it keep; else not for long, since one that waits for the thread that forks may
 * hold it. */
void loader_before_fork(void);
void loader_after_fork_parent(void);
void loader_after_fork_child(void);

#endif
