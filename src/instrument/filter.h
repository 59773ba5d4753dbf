/* filter.h - which functions are recorded, and which have their single calls, their lines, or their arguments kept.
 *
 * A code object is judged once, when its first event comes: by its qualified name, its module and its
 * file.  What is not selected costs nothing from then on (its callbacks answer DISABLE), but for
 * exceptions that pass through it.
 *
 * Context: with the GIL.  Patterns are `search` methods of compiled expressions: they run no Python
 * code.
 */
#ifndef PYH_FILTER_H
#define PYH_FILTER_H

#include <Python.h>

#include "call_tree.h"

/* Sets what is recorded and kept.  Returns 0 or -1 with an exception set.  `filter` has two tuples of `search` methods,
 * what is included (empty: all) and what is not; functions by name (empty: all); and None, or four such tuples, as
 * PerfStubs selects: which names are included (None: all) and excluded, which files are.  NULL: all functions are
 * recorded.  `keep` has functions by name; NULL: no calls are kept.  `lines` has those whose lines are recorded, where
 * any are; NULL: all that `filter` selects.  `arguments` has those of whose kept calls the arguments are noted; NULL:
 * none.  `usage` is a tuple, for each of enum usage_kinds those of whose kept calls it is recorded, or None; NULL:
 * none.  Functions by name are a frozenset of qualified names or of `module.qualname`, and a tuple of `search` methods,
 * which look at both of these and at `file:qualname`. */
int filter_set(PyObject *filter, PyObject *keep, PyObject *lines, PyObject *arguments,
               PyObject *usage);

/* Makes functions of these names opaque: their single calls are kept, and what they call is not counted.  They are
 * named as those of `keep`.  Returns 0 or -1 with an exception set. */
int filter_set_opaque(PyObject *names);

/* Sets what the files of our functions begin with, which are never recorded; NULL or empty: there are none. */
void filter_set_own(PyObject *folder);
bool filter_has_own(void);
bool filter_is_own(uint64_t code);

void filter_clear(void);
bool filter_is_set(void);
bool filter_keeps_any(void);
uint32_t filter_usage_of_any(void); /* enum usage_kinds, of all functions */

/* Lets all functions be recorded, and no calls kept, while `all` is true.  Forgets verdicts. */
void filter_let_through(bool all);

/* They return whether the code object that runs with these globals is recorded, its calls are kept, it is opaque, its
 * lines and arguments are kept.  They set no exception. */
bool filter_selects(struct exact *x, uint64_t code, PyObject *globals);
bool filter_keeps(struct exact *x, uint64_t code, PyObject *globals);
bool filter_is_opaque(struct exact *x, uint64_t code, PyObject *globals);
bool filter_has_lines(struct exact *x, uint64_t code, PyObject *globals);
bool filter_has_arguments(struct exact *x, uint64_t code, PyObject *globals);
uint32_t filter_usage(struct exact *x, uint64_t code, PyObject *globals); /* enum usage_kinds */

#endif
