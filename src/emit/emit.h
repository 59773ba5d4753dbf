/* emit.h - from the events of sys.monitoring to the sinks (sink.h): which are open, what they want, how functions and
 * threads are named.
 *
 * Context: with the GIL, unless it says otherwise.
 */
#ifndef PYH_EMIT_H
#define PYH_EMIT_H

#include <Python.h>

#include "call_tree.h"
#include "sink.h"

/* What sinks are told of values: nothing, what their exact type tells (value_text.h), or repr(), which runs the program's
 * code. */
enum emit_values { EMIT_VALUE_NONE, EMIT_VALUE_TEXT, EMIT_VALUE_REPR };

/* Loads and opens the sink of the shared object at `path`.  What it has to say to the user (text, which may be empty), or
 * NULL with OSError set.  What is open is closed by emit_close.  `values`: for all of them, the last one counts. */
PyObject *emit_open(const char *path, const char *argument, enum emit_values values);
bool emit_is_open(void);
/* A list of what they have to say to the user at the end, when they have written what they have; or NULL with an exception
 * set. */
PyObject *emit_remarks(void);
void emit_close(void); /* writes what they have; without the GIL meanwhile */

/* The kinds that are wanted, as of the last look. */
uint32_t emit_wanted(void);
/* Those of which a sink wants to know what their event says: their callbacks are to go by emit_event. */
uint32_t emit_detailed(void);
/* Looks.  Where it has changed since emit_looked, `changed` is called on a thread of its own, with the GIL. */
void emit_on_change(void (*changed)(void));
void emit_looked(void);
/* That, and writes what sinks have.  From a thread of ours, without the GIL. */
void emit_look(void);
/* No such thread runs when it returns: waits without the GIL. */
void emit_settle(void);

/* A turn begins, or ends. */
void emit_begin(struct exact_thread *t, const struct exact_frame *s, bool is_new);
void emit_end(struct exact_thread *t, const struct exact_frame *f, enum emit_kind how);

/* A region has this number and name. */
void emit_name_region(uint32_t number, const char *name, uint32_t length);

/* The callback `then`, of the innermost `frame`, with what its event says known to emit_begin and emit_end; then what is
 * full is written. */
PyObject *emit_event(enum emit_kind kind, uint64_t frame, PyObject *const *args,
                     vectorcallfunc then);

/* A point within the function that runs in `frame`, the innermost one; `args`: of its event. */
void emit_point(struct exact *x, struct exact_thread *t, uint64_t frame, enum emit_kind kind,
                PyObject *const *args);
/* What the program has to say, on this thread. */
void emit_message(struct exact_thread *t, const char *text);
/* After points: what is full is written. */
void emit_make_room(void);

/* In a forked child, at once: nothing is emitted.  Not with Python. */
void emit_after_fork_child(void);

#endif
