/* shadow.h - the shadow stack, and what its callbacks are made of.
 */
#ifndef PYH_SHADOW_H
#define PYH_SHADOW_H

#include "current_frame.h" /* first: it defines Py_BUILD_CORE */

#include "call_tree.h"
#include "instrument.h"
#include "regions.h"
#include "region_stack.h"
#include "shadow_stack.h"
#include "turns.h"

/* --- shadow.c ------------------------------------------------------------------------------------ */

/* The callbacks: vectorcall functions, (code, offset[, value]) -> None, or shadow_disable where a
 * filter leaves the function out.  PY_START; PY_RESUME; PY_THROW; PY_RETURN and PY_YIELD; PY_UNWIND. */
PyObject *shadow_on_start(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_resume(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_throw(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_yield(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *shadow_on_unwind(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

extern PyObject *shadow_disable; /* sys.monitoring.DISABLE */

/* Ends what still runs on the calling thread, now. */
void shadow_close_own(struct exact *x);

/* Ends what still runs on any thread, at the time `ticks`. */
void shadow_close_all(struct exact *x, uint64_t ticks);

/* --- calibrate.c --------------------------------------------------------------------------------- */

/* Measures the cost in about a millisecond, on functions and a tree of its own, for a session like `x`.
 * `events` are PY_START and PY_RETURN as sys.monitoring numbers them.  Returns 0, also where it cannot
 * be measured; -1 with an exception set where there is no memory, or the program's handler of a signal
 * raised it meanwhile. */
int calibrate_calls(const struct exact *x, PyObject *monitoring, int tool_id, long events,
                    struct call_cost *cost);

/* --- c_call_stack.c ------------------------------------------------------------------------------ */

/* The innermost Python frame, that runs `code`, calls the C function that starts at `function` (0: no C
 * function).  Returns false if a filter leaves it out. */
bool c_call_begins(uint64_t code, uint64_t function);

/* The C function returns, or raises. */
void c_call_returns(uint64_t code, bool raised);

/* The C function that the stack's frame `i` waits for has ended, or must have. */
void c_call_ends(struct exact_thread *t, uint32_t i, uint64_t now);

/* --- turns.c ---------------------------------------------------------------------------- */

/* Writes a field for each argument of `code`, whose frame is the innermost one; where there is no room for more, the last one
 * is `...`.  Returns how many bytes; 0: it has none. */
size_t call_arguments(PyCodeObject *code, unsigned char to[static REGION_ATTRIBUTES_MAX]);

/* --- filter.c -------------------------------------------------------------------------------- */

#define CODE_FACTS_MAX (64u << 10) /* bytes; a function with more variables has fewer in the file */

/* Records the facts of a code object; `module` is where it runs, or NULL.  Leaves no exception set. */
void code_facts_record(struct exact *x, const PyCodeObject *code, PyObject *module);

/* --- lines.c ------------------------------------------------------------------------------------- */

/* `f`, which has the node `node`, is about to stand at the top of the shadow stack: it begins, goes on,
 * or was found running.  Returns false if there is no memory. */
bool lines_begin(struct exact *x, struct exact_thread *t, struct exact_node *node,
                 const frame_t *f);

/* The callback of LINE: (code, line) -> None. */
PyObject *lines_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

/* Ends the line that the function at place `i` is on, if it is on one. */
static inline void lines_end(struct exact_thread *t, uint32_t i, uint64_t now)
{
    struct exact_line *l = &t->line[i];
    uint64_t since = l->since ? l->since : t->stack[i].since;
    if (l->node && now > since)
        count(&l->node->total_ticks, now - since);
    l->node = NULL;
}

/* --- native_path.c ------------------------------------------------------------------------------- */

/* Returns the node below `parent` for the frames between the eval loop that has the entry frame at `entry`
 * and the one that has `outer_entry`, which is `parent`'s; 0: up to what runs the program, or the thread's root. */
struct exact_node *native_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t entry, uint64_t outer_entry);

/* The same where the thread's memo has it; NULL: native_path is to find it. */
struct exact_node *native_path_known(const struct exact *x, const struct exact_thread *t,
                                     const struct exact_node *parent, uint64_t entry,
                                     uint64_t outer_entry);

/* --- thread_name.c ------------------------------------------------------------------------------- */

/* Writes the thread's name in UTF-8, cut short to `size` - 1 bytes; empty where it is none of `threading`'s threads, or
 * where finding out would run code of the program.  Leaves an exception as it is. */
void thread_name(char *to, size_t size);

#endif
