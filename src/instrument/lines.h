/* lines.h - how often the lines of chosen functions begin, and how long they last.
 *
 * A line begins with a LINE event, a function's first line with the function, and lasts until the same
 * activation's next one or its end or suspension, whatever it calls meanwhile.  Where a generator or
 * coroutine goes on, so does the line on which it was suspended.  Figures are those of a leaf of the
 * tree, below the function's node.
 *
 * Context: callbacks of sys.monitoring: with the GIL.
 */
#ifndef PYH_LINES_H
#define PYH_LINES_H

#include "shadow_stack.h"

/* `f`, which has the node `node`, is about to stand at the top of the shadow stack: it begins, goes on,
 * or was found running.  False: no memory. */
bool lines_begin(struct exact *x, struct exact_thread *t, struct exact_node *node,
                 const frame_t *f);

/* The callback of LINE: (code, line) -> None. */
PyObject *lines_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

/* The line that the function at place `i` is on ends, if it is on one. */
static inline void lines_end(struct exact_thread *t, uint32_t i, uint64_t now)
{
    struct exact_line *l = &t->line[i];
    uint64_t since = l->since ? l->since : t->stack[i].since;
    if (l->node && now > since)
        count(&l->node->total_ticks, now - since);
    l->node = NULL;
}

#endif
