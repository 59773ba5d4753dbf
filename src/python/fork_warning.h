/* fork_warning.h - the warning of forks in a process with several threads, which does not concern ours.
 *
 * A process with several threads is warned when it forks (CPython Modules/posixmodule.c,
 * warn_about_fork_with_threads, which counts those in /proc/self/stat).  Ours count too, but are harmless: they take no
 * lock of the program's, and children do not need them.  Neither does one that the kernel still takes down: the program
 * has joined it, and the kernel closes its clocks, so it is there for longer than without us.  So a filter for exactly
 * that warning stands first for as long as the process forks.  It matches where there are no other threads; they are
 * counted when it is asked, as late as CPython counts: a library may end its threads, or start them again, in a handler
 * of the C library's fork (pthread_atfork: OpenBLAS does).
 *
 * What is called then is a builtin, which runs no bytecode: a signal's handler that ran in Python code of ours could not
 * raise in the program.  For the same reason no audit hook hears of it.
 *
 * Context: ordinary, with the GIL.
 */
#ifndef PYH_FORK_WARNING_H
#define PYH_FORK_WARNING_H

#include <Python.h>

/* quiet_forks(n_ours: int, texts: tuple, entry: tuple): from now on, in this process alone, nobody is warned of
 * `n_ours` threads, in one of these texts; `entry` is what `warnings.filters` gets for it. */
PyObject *fork_warning_quiet(PyObject *self, PyObject *args);

/* before_fork(): for os.register_at_fork. */
PyObject *fork_warning_before(PyObject *self, PyObject *unused);

/* warns_of_ours(text: str) -> bool: is this a warning of no threads but ours?  For `match` of the filter's message. */
PyObject *fork_warning_matches(PyObject *self, PyObject *text);

/* forget_forks(): takes the filter away.  In the parent that has to wait for the next fork, or for quiet_forks: the
 * warning comes last. */
PyObject *fork_warning_forget(PyObject *self, PyObject *unused);

/* thread_count() -> int: of this process; -1: they cannot be counted, no descriptor is free, or there is no /proc. */
PyObject *fork_warning_threads(PyObject *self, PyObject *unused);

#endif
