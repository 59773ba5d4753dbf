/* fork_warning.h - the warning of forks in a process with several threads, which does not concern ours.
 *
 * A process with several threads is warned when it forks (CPython Modules/posixmodule.c,
 * warn_about_fork_with_threads, which counts those in /proc/self/stat).  Ours count too, but are harmless: they take no
 * lock of the program's, and children do not need them.  Neither does one that the kernel still takes down: the program
 * has joined it, and the kernel closes its clocks, so it is there for longer than without us.  So where there are no
 * others, filters for exactly that warning stand first for as long as the process forks.
 *
 * What is called before a fork is a builtin, which runs no bytecode: a signal's handler that ran in Python code of ours
 * could not raise in the program.  For the same reason no audit hook hears of it.
 *
 * Context: ordinary, with the GIL.
 */
#ifndef PYH_FORK_WARNING_H
#define PYH_FORK_WARNING_H

#include <Python.h>

/* quiet_forks(n_ours: int, filters: list): from now on, in this process alone, nobody is warned of `n_ours` threads;
 * `filters` are what `warnings.filters` gets for it. */
PyObject *fork_warning_quiet(PyObject *self, PyObject *args);

/* before_fork(): for os.register_at_fork. */
PyObject *fork_warning_before(PyObject *self, PyObject *unused);

/* forget_forks(): takes the filters away.  In the parent that has to wait for the next fork, or for quiet_forks: the
 * warning comes last. */
PyObject *fork_warning_forget(PyObject *self, PyObject *unused);

/* thread_count() -> int: of this process; -1: they cannot be counted, no descriptor is free, or there is no /proc. */
PyObject *fork_warning_threads(PyObject *self, PyObject *unused);

#endif
