/* emit.h - from the events of sys.monitoring to the sinks (sink.h): which are open, what they want, how functions and
 * threads are named.
 *
 * Context: with the GIL, unless otherwise stated.
 */
#ifndef PYH_EMIT_H
#define PYH_EMIT_H

#include <Python.h>

#include "call_tree.h"
#include "sink.h"

/* What sinks get of values: nothing, a text by their exact type (value_text.h), or repr(), which runs the program's
 * code. */
enum emit_values { EMIT_VALUE_NONE, EMIT_VALUE_TEXT, EMIT_VALUE_REPR };

/* Loads and opens the sink of the shared object at `path`.  Returns its message to the user (text, which may be empty),
 * or NULL with OSError set.  emit_close closes what is open.  `values` is for all sinks; the last one counts. */
PyObject *emit_open(const char *path, const char *argument, enum emit_values values);
bool emit_is_open(void);
/* Returns a list of the sinks' messages to the user at the end, when they have written what they have; or NULL with an
 * exception set. */
PyObject *emit_remarks(void);
void emit_close(void); /* writes what they have; without the GIL meanwhile */

/* Returns the kinds that are wanted, as of the last look. */
uint32_t emit_wanted(void);
/* Returns the kinds of which a sink wants the event's details: their callbacks are to go by emit_event. */
uint32_t emit_detailed(void);
/* Sets `changed`, which emit_look calls on a thread of its own, with the GIL, where the wishes have changed since
 * emit_looked, which looks. */
void emit_on_change(void (*changed)(void));
void emit_looked(void);
/* Looks, and writes what sinks have.  Call it from a thread of ours, without the GIL. */
void emit_look(void);
/* Waits without the GIL until no such thread runs. */
void emit_settle(void);

/* A turn begins, or ends. */
void emit_begin(struct exact_thread *t, const struct exact_frame *s, bool is_new);
void emit_end(struct exact_thread *t, const struct exact_frame *f, enum emit_kind how);

/* A region has this number and name. */
void emit_name_region(uint32_t number, const char *name, uint32_t length);

/* Calls the callback `then`, of the innermost `frame`, with its event known to emit_begin and emit_end; then writes
 * what is full. */
PyObject *emit_event(enum emit_kind kind, uint64_t frame, PyObject *const *args,
                     vectorcallfunc then);

/* A point within the function that runs in `frame`, the innermost one; `args` are its event's. */
void emit_point(struct exact *x, struct exact_thread *t, uint64_t frame, enum emit_kind kind,
                PyObject *const *args);
/* Passes on a message of the program's, on this thread. */
void emit_message(struct exact_thread *t, const char *text);
/* Call it after points: writes what is full. */
void emit_make_room(void);

/* Call it in a forked child at once: nothing is emitted there.  It needs no Python. */
void emit_after_fork_child(void);

#endif
