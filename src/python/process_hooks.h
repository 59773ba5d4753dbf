/* process_hooks.h - what becomes of the process while a profiler runs: forks, execs, code objects that begin and die.
 *
 * Sources: pthread_atfork(3), PEP 578 (audit events), CPython Doc/c-api/code.rst (code watchers).
 *
 * Context: with the GIL; what libc calls around a fork is on the thread that forks, in the child the only one.
 */
#ifndef PYH_PROCESS_HOOKS_H
#define PYH_PROCESS_HOOKS_H

#include <stdbool.h>

/* Once for the process: neither kind of hook can be taken back; they do nothing while no profiler runs.  A forked
 * child calls `in_child` first.  -1 with an exception set. */
int process_hooks_install(void (*in_child)(void));

/* To be told of code objects, of whose watchers CPython has eight; a forked child has its parent's.  False: all are
 * taken. */
bool process_hooks_watch_code(void);
void process_hooks_unwatch_code(void);
bool process_hooks_watches_code(void);

#endif
