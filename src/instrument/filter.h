/* filter.h - which functions are recorded.
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

/* Tuples of `search` methods (an empty `include` means all), and a frozenset of qualified names or of
 * `module.qualname` (empty: all).  `timers`: None, or four such tuples, as PerfStubs selects: which names are included
 * (None: all) and excluded, which files are.  All NULL: no filter.  0 or -1 with an exception set. */
int filter_set(PyObject *include, PyObject *exclude, PyObject *names, PyObject *timers);

/* What the files of our functions begin with, which are never recorded; NULL or empty: there are none. */
void filter_set_own(PyObject *folder);
bool filter_has_own(void);
bool filter_is_own(uint64_t code);

void filter_clear(void);
bool filter_is_set(void);
bool filter_has_names(void);

/* While it is true all functions are recorded, at the usual cost.  Forgets verdicts. */
void filter_let_through(bool all);

/* Is the code object that runs with these globals recorded?  Sets no exception. */
bool filter_selects(struct exact *x, uint64_t code, PyObject *globals);

#endif
