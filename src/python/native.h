/* native.h - what the files of the extension offer one another; with the GIL, unless otherwise stated.
 */
#ifndef PYH_NATIVE_H
#define PYH_NATIVE_H

#include <Python.h>

#include <stdbool.h>

#include "function_figures.h"
#include "instrument.h"
#include "native_region.h"
#include "sampler.h"

/* --- fork_warning.c ------------------------------------------------------------------------------ */

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

/* --- live_figures.c ------------------------------------------------------------------------------ */

/* Returns [(caller's code object or None, calls, nanoseconds)] of the function of a code object.  With `knows_deaths`,
 * a code object that is in the table is alive. */
PyObject *live_figures(struct exact *x, PyObject *code, bool knows_deaths);

/* --- method_swap.c ------------------------------------------------------------------------------- */

struct method_swap {
    const char *module, *name;
    int flags; /* the calling convention that `ours` has; another one is left alone */
    PyCFunction ours;
    PyMethodDef *def; /* NULL: not found */
    PyCFunction original;
};

/* Leaves no exception set.  It has no effect where there is no such function. */
void method_swap_in(struct method_swap *m);
/* It has no effect where somebody else has come after us.  Safe in a forked child. */
void method_swap_out(struct method_swap *m);

/* --- native_tools.c ------------------------------------------------------------------------------ */

/* open_tool(path): loads the tool for all of the process to find, and for good.  Raises OSError. */
PyObject *native_open_tool(PyObject *self, PyObject *path);

/* Returns a new dict of meta keys: unplaced_regions, unmatched_regions, counting_more_ns (instrument_more_ns; `x` NULL:
 * 0), other_tools (monitoring.c), counters, metadata, collections (garbage.c: of each generation how many, and nanoseconds).
 * NULL: an exception is set. */
PyObject *native_summary(uint32_t generation, struct native_region_losses losses,
                         const struct exact *x);

/* --- process_hooks.c ----------------------------------------------------------------------------- */

/* Call it once for the process: neither kind of hook can be taken back; they do nothing while no profiler runs.  A
 * forked child calls `in_child` first.  Returns 0 or -1 with an exception set. */
int process_hooks_install(void (*in_child)(void));

/* after_fork_in_child(call): calls it, for os.register_at_fork; signals that come to the child until it has returned come
 * then.  What it raises is forgotten. */
PyObject *process_hooks_after_fork_child(PyObject *self, PyObject *call);
/* after_fork_in_parent(): for the same. */
PyObject *process_hooks_after_fork_parent(PyObject *self, PyObject *unused);

/* Watches code objects, of whose watchers CPython has eight; a forked child has its parent's.  Returns false if all are
 * taken. */
bool process_hooks_watch_code(void);
/* Where the interpreter's main hands over to the program the session, which is paused, `resumes`, and interrupts, which
 * are blocked, are let through. */
void process_hooks_await_program(bool resumes, bool lets_through);
void process_hooks_unwatch_code(void);
bool process_hooks_watches_code(void);

/* --- program.c ----------------------------------------------------------------------------------- */

/* mark_launcher(): all that runs now, and what it calls, is not the program's (launcher.h). */
PyObject *program_mark_launcher(PyObject *self, PyObject *unused);

/* ProgramFile(path: bytes | None): a script or `.pyc`, opened; None: standard input.  Whoever asks for its truth value
 * runs it, in `__main__`, and gets what PyRun_AnyFileExFlags returns: 0, or -1, without an exception, where it ended by
 * one, which has been reported (sys.last_exc). */
int program_add_file_type(PyObject *module);

/* end_file(file, failed: bool): after that. */
PyObject *program_end_file(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* compile_command(code: str) -> code | None: the value of `-c`; its source is then known to tracebacks: modules are
 * imported for that.  None: it cannot be compiled, which has been reported. */
PyObject *program_compile_command(PyObject *self, PyObject *text);

/* begin_code(code): runs it in `__main__`.  Raises what it raises, in a frame of ours. */
PyObject *program_begin_code(PyObject *self, PyObject *code);

/* begin_call(beginner, function, *arguments): the same for the call of a function that calls `beginner`, which hands
 * over to the program by exec(). */
PyObject *program_begin_call(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* end_program(error | None, finder: str | None) -> what reports the error, without the frame of ours, when it is let go
 * of: that is the program's, too, and has its end.  `finder`: the file of what finds the program. */
PyObject *program_end(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* never_began() -> bool: one of these has ended by an error before any of the program's code ran: it was not found, or
 * could not be compiled. */
PyObject *program_never_began(PyObject *self, PyObject *unused);

/* call_apart(function, *args, **kwargs): a call of which the profile has nothing of what leads to it, as if the program
 * began there.  It leaves its frame to the function: where the program begins, whoever calls it keeps and puts back. */
PyObject *program_call_apart(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* launcher(*kept) -> kept: where the program begins; from now on where it did when `kept` was returned. */
PyObject *program_launcher(PyObject *self, PyObject *args);

/* exec() is called.  Returns whether it is by `beginner`, for the first time: then its frame is the launcher's last
 * from now on. */
bool program_begins_now(void);

/* --- spawns.c ------------------------------------------------------------------------------------ */

/* Calls `count` for each spawn, from now on. */
void spawns_watch(void (*count)(void));
void spawns_unwatch(void); /* also in a forked child */
/* Audit events. */
void spawns_audit(const char *event);
/* Returns whether the calling thread's fork() belongs to what is counted here. */
bool spawns_forks(void);

/* --- start_options.c ----------------------------------------------------------------------------- */

struct start_options {
    struct sampler_options sampler;
    int lines, c_calls; /* of the exact half: counted and timed, too */
    int tasks;          /* asyncio's below what made them */
    int counts;         /* 0: its events are for sinks alone, and come while one wants them */
    int paused;         /* until resume() */
    PyObject *filter, *keep, *lines_of, *arguments_of, *usage_of; /* borrowed; NULL: none */
    uint32_t max_calls; /* so many are kept all (kept_calls.h) */
    PyObject *
        call_cost; /* borrowed; (call_ns, inside_ns, usual_ticks) of another process; NULL: it is measured */
    uint32_t usage; /* enum usage_kinds: what is recorded of them */
    PyObject *
        own; /* borrowed; what the files of functions begin with that are not recorded; NULL: none */
};

/* Fills `o` from start's arguments.  What they refer to is theirs.  Returns 0, or -1 with an exception set. */
int start_options_parse(struct start_options *o, PyObject *args, PyObject *keywords);

/* --- whole_write.c ------------------------------------------------------------------------------- */

/* whole_write(raw: io.FileIO) -> builtin: `raw.write` that goes on until everything is written, an error
 * comes, a signal handler of Python's raises, or the file (non-blocking) takes nothing. */
PyObject *whole_write(PyObject *self, PyObject *raw);

/* --- window.c ------------------------------------------------------------------------------------ */

/* Returns how many windows are open. */
uint32_t window_n_open(void);

/* Adds the type `window`.  Returns 0, or -1 with an exception set. */
int window_add_type(PyObject *module);

#endif
