/* spawns.h - counts the processes that Python starts: subprocess, multiprocessing, os.posix_spawn, os.system, and
 * those that a fork server of multiprocessing makes for this process.
 *
 * Source: CPython Modules/_posixsubprocess.c (fork_exec, which nothing announces where multiprocessing calls it),
 * Modules/posixmodule.c, Lib/multiprocessing/forkserver.py.
 *
 * Context: with the GIL.
 */
#ifndef PYH_SPAWNS_H
#define PYH_SPAWNS_H

#include <stdbool.h>

/* Each one is told to `count`, from now on. */
void spawns_watch(void (*count)(void));
void spawns_unwatch(void); /* also in a forked child */
/* Audit events. */
void spawns_audit(const char *event);
/* Does the calling thread's fork() belong to what is counted here? */
bool spawns_forks(void);

#endif
