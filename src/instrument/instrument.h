/* instrument.h - the callbacks of sys.monitoring, as the rooms above see them.
 */
#ifndef PYH_INSTRUMENT_H
#define PYH_INSTRUMENT_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "call_tree.h"
#include "function_names.h"

/* --- c_calls.c ----------------------------------------------------------------------------------- */

/* Announces a name by which Python calls the C function at `address`, once for each. */
typedef void c_calls_announce(uint64_t address, const char *name, uint32_t length);

/* Call it once per session.  Returns 0 or -1 with an exception set. */
int c_calls_start(c_calls_announce *announce);
void c_calls_stop(void);

/* The callbacks: vectorcall functions, (code, offset, callable, first argument) -> None, or DISABLE. */
PyObject *c_calls_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *c_calls_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *c_calls_on_raise(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

/* ------------------------------------------------------------------------------------------------- */

/* the exact half: every begin and end of a Python function, by sys.monitoring.
 *
 * Context: Python threads, with the GIL.
 */

/* Estimates, in nanoseconds; 0: not known.  calibrate.c has the model. */
struct call_cost {
    double call_ns;   /* that counting adds to a call, or to a turn of a generator, in all */
    double inside_ns; /* the part of it that the callee's own time has; the rest is its caller's */
    uint64_t usual_ticks; /* struct callback_times' */
};

/* Claims a tool id (4, else 3, else 2), measures what counting costs unless `cost` has it, and switches the events on,
 * for the calling interpreter; with `lines`, LINE events, too, of the functions that the filter selects.
 * With `c_calls`, calls of C functions are counted, and announced to it by name; NULL: they are not.
 * Returns the id, or -1 with a Python exception set: RuntimeError if no id is free. */
int instrument_start(struct exact *x, bool lines, c_calls_announce *c_calls,
                     struct call_cost *cost);

/* Where nothing is counted, switches one event on until instrument_stop: where the method begins through which objects
 * are called, which are met there (instances.h).  Returns 0, or -1 with an exception set: RuntimeError if no id is
 * free. */
int instrument_meet(void);

/* Each thread calls it with the first event that is counted, or (instrument_meet_thread) where it begins.  NULL:
 * not. */
extern void (*instrument_thread_begins)(void);

/* Where nothing is counted, `function` is to be the first one of a thread.  If it is `threading`'s, switches one event
 * on, where that begins, until instrument_stop.  Sets no exceptions. */
void instrument_meet_thread(PyObject *function);

/* The code object at `code` has LINE events from now on; is about to be freed, or just made.  Call them with no
 * exception set; they leave none. */
void instrument_add_lines(uint64_t code);
void instrument_forget_code(uint64_t code);

/* Switches the events off, ends what still runs, gives the id back.  Leaves no exception set. */
void instrument_stop(void);

/* Returns what begins and ends took so far beyond the cost of a call (struct call_cost) each, in nanoseconds: those
 * from C code, of new paths, of new threads. */
double instrument_more_ns(const struct exact *x);

/* They switch events off and on again: functions that run then end, and begin anew as if profiling began.
 * instrument_resume returns 0 or -1 with an exception set. */
void instrument_pause(void);
int instrument_resume(void);

/* They stop and resume the counting of events as these two do, at next to no cost: events may still come, and are
 * switched off where they go on to.  Where it is active already, only what has run since is nobody's time.  They set no
 * exceptions. */
void instrument_idle(void);
void instrument_active(void);

/* Handles an event that does not count, whatever exception is set. */
void instrument_idle_event(void);

/* Ends the turns of what runs now on the calling thread, which leads to the program and is none of it (launcher.h). */
void instrument_program_begins(void);

/* Call it in a forked child at once: nothing is counted there.  It needs no Python. */
void instrument_after_fork_child(void);

/* Switches off what a forked child inherited, when Python can be used again, or the one event of instrument_meet. */
void instrument_forget(void);

/* --- emit_callbacks.c ----------------------------------------------------------------------------------- */

PyObject *emitted_on_start(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_resume(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_throw(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_return(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_yield(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_unwind(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names);
PyObject *emitted_on_line(PyObject *self, PyObject *const *args, size_t n, PyObject *names);

/* Passes a message of the program's to the sinks. */
void emitted_message(const char *text);

/* --- garbage.c ----------------------------------------------------------------------------------- */

/* Has the interpreter's garbage collections noted, until garbage_stop.  They leave no exception set. */
void garbage_start(void);
void garbage_stop(void);

/* --- call_inputs.c ------------------------------------------------------------------------------- */

/* From now on calls of `code`, whose arguments are `self, *args, **kwargs`, are looked at; `types` is a tuple of the types
 * of integers, and is_heard() whether something hears what is done with tensors of that class.  NULL: no more. */
void call_inputs_set(PyObject *code, PyObject *class, PyObject *types, PyObject *heard);

/* Returns how many elements it has of those with which the function at `s` begins now, at most WATCHED_FREED_MOST; 0:
 * there is none, or it is not known.  Leaves the exception that is set. */
uint32_t call_inputs_elements(const struct exact_frame *s);

/* Is a node's word that of this function?  (At the end of a call its frame may be gone.) */
bool call_inputs_is_model(uint64_t word);

/* --- method_names.c ------------------------------------------------------------------------------ */

#define METHOD_NAMES_MAX 8
#define METHOD_NAMES_BUDGET_NS 250000000ull

void method_names_collect(const struct function_names *to);

/* --- monitoring.c -------------------------------------------------------------------------------- */

/* Calls sys.monitoring.name(...) and drops its result; `format` is Py_BuildValue's, of a tuple.  Returns 0 or -1. */
int monitoring_call(PyObject *monitoring, const char *name, const char *format, ...);

/* Returns sys.monitoring.events.name, or -1. */
long monitoring_event(PyObject *monitoring, const char *name);

/* Claims our tool's id, which was free.  Returns it, or -1. */
int monitoring_claim(PyObject *monitoring);

/* Remembers whether there is another tool, sys.settrace's and sys.setprofile's functions included; the audit hook
 * reports those that begin later (monitoring_audit).  Returns whether one gets the events of all functions. */
bool monitoring_look_for_others(PyObject *monitoring, int own);
void monitoring_audit(const char *event, PyObject *args);

/* Returns whether there was another tool since monitoring_look_for_others: then the interpreter's instrumentation is
 * not ours alone. */
bool monitoring_has_others(void);

/* --- usage.c ------------------------------------------------------------------------------------- */

/* Records `kinds` (enum usage_kinds) of the calls of `x` that are kept, and `by_name` of those of some functions
 * (filter.h).  What cannot be had is left out. */
void usage_start(struct exact *x, uint32_t kinds, uint32_t by_name);
void usage_stop(void);

/* Returns the process's resident memory, in bytes (1 us); 0: it is not known. */
uint64_t usage_resident(void);

/* A turn of `s`, which is in the stack of `t`, begins; these `kinds` are recorded of it. */
void usage_begin(struct exact_thread *t, struct exact_frame *s, uint32_t kinds);

/* A turn of which something is recorded ends; returns `of`. */
const struct call_usage *usage_end(struct exact_thread *t, const struct exact_frame *s,
                                   struct call_usage *of);

/* --- watch_list.c -------------------------------------------------------------------------------- */

/* Watches these functions from now on.  `functions` is a dict from qualified names to tuples of (end of the file's
 * name, are calls back from it watched, has it a rest, is something to be noted after it, its
 * group or 0); `own` a tuple of folders whose functions are the framework's; `others` of
 * folders, beside its own, whose functions are not the program's; `others_but` of parts of these whose are.  Returns 0
 * or -1 with an exception set. */
int watch_list_set(PyObject *functions, PyObject *own, PyObject *others, PyObject *others_but);
void watch_list_clear(void);

/* Sets the listener: `begins(code)` is called when a watched function is called, before it runs; without events, and
 * what it raises that is no Exception comes in the program soon.  NULL: no more. */
void watch_list_on_begin(PyObject *begins);
void watch_list_notify(uint64_t code);

/* Sets what is called, `notes()`, as the next watched function begins after one of which something is to be noted. */
void watch_list_on_noted(PyObject *notes);

/* A call of the function of that node's word begins.  Returns whether watch_list_notify is to be called. */
bool watch_list_begins(uint64_t word);

/* Returns whether the function of that node's word has a rest; and whether a code object's function is the program's,
 * which may have one. */
bool watch_list_has_rest(uint64_t word);
bool watch_list_is_programs(uint64_t code);

/* Returns PYH_FUNCTION_WATCHED and _INSIDE, if they are to stand in the new node `word` below `parent`, of this code
 * object.  Sets no exception. */
uint64_t watch_list_marks(const struct exact_thread *t, const struct exact_node *parent,
                          uint64_t word, uint64_t code);

/* From begin to end what the calling thread does is ours, not the program's: no event of it counts but those of the
 * function that runs now, samples are [pyhybrid], and the time is none of the functions that run, from the innermost up
 * to the first whose single calls are kept. */
struct own_work {
    struct exact_thread *thread; /* NULL: nothing counts here, or no more */
    uint64_t frame, from;
    uint32_t generation;
    bool is_outer;
};
void own_work_begin(struct own_work *w);
/* With `same_session`, profiling has not ended since. */
void own_work_end(const struct own_work *w, bool same_session);

#endif
