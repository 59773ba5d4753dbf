/* watch_list.h - functions of a framework whose single calls are kept by themselves (watched_calls.h), by file and name.
 *
 * Of a function that runs within itself the outermost call counts.  Of some functions it is told as well when they call
 * back: of what they run, directly or through the framework's own functions, the first function that is the program's is
 * watched, too (a closure that an optimizer runs).  All that is decided when a path is new, so calls cost nothing more.
 *
 * Context: with the GIL.
 */
#ifndef PYH_WATCH_LIST_H
#define PYH_WATCH_LIST_H

#include <Python.h>

#include "call_tree.h"

/* From now on these are watched.  `functions`: a dict from qualified names to tuples of (end of the file's name, is it told
 * when it calls back); `own`: a tuple of folders whose functions are the framework's; `others`: of folders, beside its own,
 * whose functions are not the program's, and of parts of these whose are.  0 or -1 with an exception set. */
int watch_list_set(PyObject *functions, PyObject *own, PyObject *others, PyObject *others_but);
void watch_list_clear(void);

/* From now on `begins(code)` is called when one is called, before it runs: without events, and what it raises that is no
 * Exception comes in the program soon.  NULL: no more. */
void watch_list_on_begin(PyObject *begins);
bool watch_list_tells(void);
void watch_list_tell(uint64_t code);

/* PYH_FUNCTION_WATCHED and _INSIDE, if they are to stand in the new node `word` below `parent`, of this code object.  Sets
 * no exception. */
uint64_t watch_list_marks(const struct exact_thread *t, const struct exact_node *parent,
                          uint64_t word, uint64_t code);

#endif
