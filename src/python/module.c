/* pyhybrid._native: turns arguments into calls.  No logic. */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>

#include <string.h>

#include "emit.h"
#include "instrument.h"
#include "ending.h"
#include "clock.h"
#include "filter.h"
#include "native.h"
#include "instances.h"
#include "backward_work.h"
#include "listener.h"
#include "native_region.h"
#include "region.h"
#include "sampler.h"
#include "spool.h"
#include "turns.h"

#ifdef Py_GIL_DISABLED
#error "free-threaded builds are not supported yet"
#endif

static bool starting;
static struct call_cost call_cost; /* that the last start measured */

static void in_forked_child(void)
{
    starting = false;
}

static PyObject *raise_start_error(int error, const char *text)
{
    PyObject *value = Py_BuildValue("(is)", -error, text);
    if (value)
        PyErr_SetObject(PyExc_OSError, value);
    Py_XDECREF(value);
    return NULL;
}

static void announce_c_function(uint64_t address, const char *name, uint32_t length)
{
    struct spool_c_function head = {.address = address};
    sampler_post(SPOOL_C_FUNCTION, &head, sizeof head, name, length);
}

/* The tool id, or -1 with an exception set and nothing running. */
static int start_events(const struct start_options *o, struct call_cost *cost)
{
    int tool_id = -1;
    sampler_exact()->counts = o->counts;
    sampler_exact()->tasks = o->tasks && o->counts;
    sampler_exact()->open.max_kept = o->max_calls;
    filter_set_own(o->own);
    if (filter_set(o->filter, o->keep, o->lines_of, o->arguments_of, o->usage_of))
        ;
    else if (!process_hooks_watches_code())
        PyErr_SetString(PyExc_RuntimeError, "no code watcher is free (CPython has eight)");
    else {
        usage_start(sampler_exact(), o->usage, filter_usage_of_any());
        tool_id = instrument_start(sampler_exact(), o->lines,
                                   o->c_calls ? announce_c_function : NULL, cost);
    }
    if (tool_id >= 0)
        return tool_id;
    PyObject *error = PyErr_GetRaisedException();
    struct sampler_result unused;
    filter_clear();
    usage_stop();
    sampler_stop(NULL, &unused);
    process_hooks_unwatch_code();
    PyErr_SetRaisedException(error);
    return -1;
}

PyDoc_STRVAR(read_clock_doc, "read_clock(clock: int) -> int\n\n"
                             "Its time in nanoseconds, as the kernel has it: clock.h.");

static PyObject *read_clock(PyObject *self, PyObject *clock)
{
    (void)self;
    long number = PyLong_AsLong(clock);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(clock_read_ns((clockid_t)number));
}

PyDoc_STRVAR(flush_doc, "flush() -> None\n\nWhat was measured is in the spool when it returns.");

static PyObject *flush(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    sampler_flush();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(enter_caller_doc, "enter_caller(region) -> region\n\n"
                               "Enter it in the innermost function that is none of pyhybrid's.");

PyDoc_STRVAR(pause_doc, "pause() -> None\n\nNo samples and no events from now on, until resume().");

static PyObject *pause_all(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    instrument_pause();
    sampler_pause();
    Py_RETURN_NONE;
}

static const char *const engine_names[] = {
    [ENGINE_PERF_EVENT] = "perf_event", [ENGINE_TIMER] = "timer",
    [ENGINE_MONOTONIC] = "monotonic",   [ENGINE_NONE] = "none",
    [ENGINE_SIGTRAP] = "sigtrap",
};

static int set_call_cost(struct call_cost *cost, PyObject *known)
{
    unsigned long long usual_ticks = 0;
    if (!PyArg_ParseTuple(known, "ddK", &cost->call_ns, &cost->inside_ns, &usual_ticks))
        return -1;
    cost->usual_ticks = usual_ticks;
    return 0;
}

PyDoc_STRVAR(
    start_doc,
    "start(spool: int, **options) -> dict\n\n"
    "Start profiling all threads of the process into the empty file with descriptor `spool`.\n"
    "The options: start_options.c.\n"
    "Returns engine, engine_reason, no_kernel_frames (why; None: there are), unlisted (which "
    "threads), period_ns, cost_ns, "
    "start_ns, watches_code, tool_id (-1: no\n"
    "events), call_cost: those of instrument.h, struct call_cost.  Raises "
    "OSError,\n"
    "and RuntimeError where no events are to be had.");

static PyObject *start(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    struct start_options options;
    int tool_id = -1;
    if (start_options_parse(&options, args, kwargs))
        return NULL;
    options.sampler.looks = emit_is_open();
    struct sampler_info info;
    struct call_cost cost = {0};
    if (options.sampler.inherits)
        cost = call_cost;
    else if (options.call_cost && set_call_cost(&cost, options.call_cost))
        return NULL;
    if (process_hooks_install(in_forked_child))
        return NULL;
    if (starting || sampler_running())
        return raise_start_error(-EBUSY, "a profiler is already running");
    if (options.sampler.inherits)
        instances_clear(); /* their names are in the parent's spool */
    starting = true;       /* others may run meanwhile */
    /* Before the first sample: codes may die after it.  If there is none, the file has that. */
    bool watches_code = process_hooks_watch_code();
    int error = sampler_start(&options.sampler, &info);
    starting = false;
    if (error) {
        process_hooks_unwatch_code();
        return raise_start_error(error, info.error);
    }
    if (options.sampler.exact && (tool_id = start_events(&options, &cost)) < 0)
        return NULL;
    call_cost = cost;
    if (options.paused)
        instrument_pause();
    else
        sampler_resume();
    spawns_watch(sampler_spawned);
    native_region_open(sampler_generation());
    return Py_BuildValue(
        "{ssssszszsKsKsKsOsis(ddK)}", "engine", engine_names[info.engine], "engine_reason",
        info.engine_reason, "no_kernel_frames", info.no_kernel_frames, "unlisted", info.unlisted,
        "period_ns", (unsigned long long)info.period_ns, "cost_ns",
        (unsigned long long)info.cost_ns, "start_ns", (unsigned long long)info.start_ns,
        "watches_code", watches_code ? Py_True : Py_False, "tool_id", tool_id, "call_cost",
        cost.call_ns, cost.inside_ns, (unsigned long long)cost.usual_ticks);
}

PyDoc_STRVAR(
    emit_doc,
    "emit(sink: bytes, argument: bytes, values: int) -> str\n\n"
    "Load and open a sink (emit/sink.h), before start.  values: 0 it is told nothing of them, 1 "
    "text, 2 repr.\nWhat it has to say to the user, or empty.  Raises OSError.");

static PyObject *emit(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path, *argument;
    int values;
    if (!PyArg_ParseTuple(args, "yyi", &path, &argument, &values))
        return NULL;
    if (starting || sampler_running())
        return raise_start_error(-EBUSY, "a profiler is already running");
    return emit_open(path, argument, (enum emit_values)values);
}

PyDoc_STRVAR(close_emit_doc, "close_emit() -> None\n\nClose all sinks.");

static PyObject *close_emit(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    emit_close();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(signpost_doc, "signpost(text: bytes) -> None\n\n"
                           "Tell sinks that take messages.");

static PyObject *signpost(PyObject *self, PyObject *text)
{
    (void)self;
    char *bytes = PyBytes_AsString(text);
    if (!bytes)
        return NULL;
    if (*bytes)
        emitted_message(bytes);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    stop_doc,
    "stop(describe=None, names=True) -> dict | None\n\n"
    "Stop, flush and close the spool (sampler.h: what stays).  `describe(said)` gives a last META\n"
    "record (bytes) with what native code said (native_tools.c); what it calls is not counted.\n"
    "Without `names`, methods of C have none here: the parent of a forked child has them.\n"
    "None if no profiler runs (also in a forked child).");

static void write_last_meta(PyObject *describe, struct native_region_losses regions)
{
    PyObject *summary = native_summary(sampler_generation(), regions, sampler_exact());
    PyObject *text = summary ? PyObject_CallOneArg(describe, summary) : NULL;
    if (text && PyBytes_Check(text))
        sampler_write(SPOOL_META, NULL, 0, PyBytes_AS_STRING(text),
                      (uint32_t)PyBytes_GET_SIZE(text));
    Py_XDECREF(summary);
    Py_XDECREF(text);
    PyErr_Clear();
}

static PyObject *stop(PyObject *self, PyObject *args)
{
    (void)self;
    struct sampler_result result;
    PyObject *describe = Py_None;
    int error, names = true;
    if (!PyArg_ParseTuple(args, "|Op", &describe, &names))
        return NULL;
    if (!sampler_running())
        Py_RETURN_NONE;
    leave_unwatch();
    spawns_unwatch();
    struct native_region_losses regions = native_region_close();
    instrument_stop();
    instances_clear();
    sampler_pause(); /* what we do from here on is not the program's */
    if (describe != Py_None)
        write_last_meta(describe, regions);
    error = sampler_stop(names ? method_names_collect : NULL, &result);
    PyObject *remarks = emit_remarks();
    emit_close();            /* the collector looks no more */
    if (error || !remarks) { /* another thread has stopped it */
        Py_XDECREF(remarks);
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    process_hooks_unwatch_code(); /* now: codes could die before samples were read */
    return Py_BuildValue(
        "{sKsKsIsIsKsNsiszsisN}", "end_ns", (unsigned long long)result.end_ns, "process_cpu_ns",
        (unsigned long long)result.process_cpu_ns, "n_forked", result.n_forked, "n_spawned",
        result.n_spawned, "n_not_ready", (unsigned long long)result.n_not_ready, "signal_taken",
        PyBool_FromLong(result.signal_taken), "spare_signal", result.spare_signal, "trap_lost",
        result.trap_lost, "write_error", result.write_error, "remarks", remarks);
}

PyDoc_STRVAR(hold_calls_doc,
             "hold_calls(holds: bool) -> bool\n\n"
             "From now on calls_of tells of threads that have ended, too, or no longer.  False: no "
             "calls are\ncounted, and nothing has changed.");

static PyObject *hold_calls(PyObject *self, PyObject *holds)
{
    (void)self;
    struct exact *x = sampler_running() ? sampler_exact() : NULL;
    if (x && x->counts)
        exact_hold_threads(x, holds == Py_True);
    return PyBool_FromLong(x && x->counts);
}

PyDoc_STRVAR(calls_of_doc,
             "calls_of(code) -> list[tuple[CodeType | None, int, int]]\n\n"
             "How often the function of a code object was called so far, on all threads, and "
             "nanoseconds\nin it (function_figures.h), by the function that called it (None: it is "
             "gone, or none did).\nRaises RuntimeError where that is not known.");

static PyObject *calls_of(PyObject *self, PyObject *code)
{
    (void)self;
    struct exact *x = sampler_running() ? sampler_exact() : NULL;
    if (x && x->counts && PyCode_Check(code))
        return live_figures(x, code, process_hooks_watches_code());
    return PyErr_Format(PyExc_RuntimeError, "no calls of that are counted");
}

PyDoc_STRVAR(running_doc, "running() -> bool\n\nIs a profiler running in this process?");

static PyObject *running(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(sampler_running());
}

PyDoc_STRVAR(session_doc, "session() -> int\n\nThe number of the one that runs; 0: none does.");

static PyObject *session(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLong(sampler_generation());
}

PyDoc_STRVAR(open_windows_doc, "open_windows() -> int\n\nHow many windows are open.");

static PyObject *open_windows(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLong(window_n_open());
}

PyDoc_STRVAR(resume_doc, "resume() -> None\n\nSamples and events again.");

static PyObject *resume_all(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    sampler_resume();
    if (instrument_resume())
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(after_fork_in_child_doc, "after_fork_in_child(call) -> None\n\n"
                                      "Call it, and let signals come only then.");

PyDoc_STRVAR(after_fork_in_parent_doc, "after_fork_in_parent() -> None\n\n"
                                       "The fork is over, or has failed.");

PyDoc_STRVAR(await_program_doc,
             "await_program(resumes: bool, lets_through: bool) -> None\n\n"
             "Resume, and let interrupts through, where the interpreter hands over to "
             "the program.");

static PyObject *await_program(PyObject *self, PyObject *args)
{
    (void)self;
    int resumes, lets_through;
    if (!PyArg_ParseTuple(args, "pp", &resumes, &lets_through))
        return NULL;
    process_hooks_await_program(resumes, lets_through);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(child_records_doc,
             "child_records() -> bool\n\n"
             "May this forked child have a session of its own?  Not if the fork belongs "
             "to the start of\na program, or if the disk of its parent's spool does not "
             "answer.");

static PyObject *child_records(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(!spawns_forks() && !sampler_parent_waits());
}

PyDoc_STRVAR(forget_doc, "forget() -> None\n\nIn a forked child: switch the parent's events off.");

static PyObject *forget(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    instrument_forget();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(write_meta_doc, "write_meta(json: bytes) -> None\n\nAdd a META record to the spool.");

static PyObject *write_meta(PyObject *self, PyObject *json)
{
    (void)self;
    char *text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(json, &text, &length))
        return NULL;
    sampler_write(SPOOL_META, NULL, 0, text, (uint32_t)length);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(name_thread_doc, "name_thread(native_id: int, name: str) -> None\n\n"
                              "Tell a thread's name as `threading` knows it.");

static PyObject *name_thread(PyObject *self, PyObject *args)
{
    (void)self;
    int tid;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "is#", &tid, &name, &length))
        return NULL;
    sampler_name_thread(tid, name, (uint32_t)length);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(await_code_doc,
             "await_code(file: str, found: Callable[[CodeType], object]) -> None\n\n"
             "Call it once the program runs the code of a file whose name ends so.");

static PyObject *await_code(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *file, *found;
    if (!PyArg_ParseTuple(args, "UO", &file, &found))
        return NULL;
    instances_await(file, found);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(tell_instances_doc,
             "tell_instances(code: CodeType, methods: str, children: str, wrappers: tuple,\n"
             "               lists: tuple, named_inside: tuple) -> None\n\n"
             "Objects for which this method runs are frames from now on (instances.h).");

static PyObject *tell_instances(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *code, *methods_suffix, *children, *wrappers, *lists, *named;
    if (!PyArg_ParseTuple(args, "OOOOOO", &code, &methods_suffix, &children, &wrappers, &lists,
                          &named) ||
        instances_set(code, methods_suffix, children, wrappers, lists, named) ||
        (sampler_running() && !sampler_exact() && instrument_meet()))
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    watch_calls_doc,
    "watch_calls(functions: dict, own: tuple, others: tuple, others_but: tuple) -> None\n\n"
    "Keep the single calls of a framework's functions from now on (watch_list.c).");

static PyObject *watch_calls(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *functions, *own, *others, *others_but;
    if (!PyArg_ParseTuple(args, "OOOO", &functions, &own, &others, &others_but) ||
        watch_list_set(functions, own, others, others_but))
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(watch_inputs_doc,
             "watch_inputs(code: CodeType, tensor: type, integers: tuple, heard: Callable[[], "
             "bool]) -> None\n\n"
             "Note from now on how many integers that function is called with (call_inputs.c).");

static PyObject *watch_inputs(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *code, *tensor, *integers, *heard;
    if (!PyArg_ParseTuple(args, "O!OO!O", &PyCode_Type, &code, &tensor, &PyTuple_Type, &integers,
                          &heard))
        return NULL;
    call_inputs_set(code, tensor, integers, heard);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(tell_opaque_doc,
             "tell_opaque(names: tuple[frozenset[str], tuple]) -> None\n\n"
             "What functions of these names call is not counted from now on (filter.h).");

static PyObject *tell_opaque(PyObject *self, PyObject *names)
{
    (void)self;
    if (filter_set_opaque(names))
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(on_watched_doc,
             "on_watched(begins: Callable[[CodeType], object] | None) -> None\n\n"
             "Call it when a function that watch_calls names is called, before it runs.");

static PyObject *on_watched(PyObject *self, PyObject *begins)
{
    (void)self;
    watch_list_on_begin(begins == Py_None ? NULL : begins);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    on_noted_doc,
    "on_noted(notes: Callable[[], object]) -> None\n\n"
    "Call it as the next watched function begins after one of which something is to be noted.");

static PyObject *on_noted(PyObject *self, PyObject *notes)
{
    (void)self;
    watch_list_on_noted(notes);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_events_doc,
             "log_events(on: bool) -> None\n\n"
             "With event_windows: begins and ends are logged from now on, or no longer.");

static PyObject *log_events(PyObject *self, PyObject *on)
{
    (void)self;
    struct exact *x = sampler_running() ? sampler_exact() : NULL;
    if (x)
        turns_log(x, on == Py_True);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(write_device_work_doc,
             "write_device_work(text: bytes, numbers: Buffer) -> None\n\n"
             "Add a DEVICE_WORK record to the spool: JSON, and an array of 64-bit integers.");

static PyObject *write_device_work(PyObject *self, PyObject *args)
{
    (void)self;
    const char *text;
    Py_ssize_t length;
    Py_buffer numbers;
    if (!PyArg_ParseTuple(args, "y#y*", &text, &length, &numbers))
        return NULL;
    size_t padded = ((size_t)length + 7) & ~7ull, bytes = sizeof(struct spool_device_work) + padded;
    char *head = PyMem_Calloc(1, bytes);
    if (head) {
        *(struct spool_device_work *)head =
            (struct spool_device_work){.text_length = (uint32_t)length};
        memcpy(head + sizeof(struct spool_device_work), text, (size_t)length);
        sampler_write(SPOOL_DEVICE_WORK, head, (uint32_t)bytes, numbers.buf, (uint32_t)numbers.len);
        PyMem_Free(head);
    }
    PyBuffer_Release(&numbers);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(await_end_doc, "await_end(code: CodeType, loaded: Callable[[], object]) -> bool\n\n"
                            "Call it once this code, which runs now, has returned (instances.h).");

static PyObject *await_end(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *code, *loaded;
    if (!PyArg_ParseTuple(args, "OO", &code, &loaded))
        return NULL;
    return PyBool_FromLong(instances_await_end(code, loaded));
}

PyDoc_STRVAR(end_file_doc, "end_file(file: ProgramFile, failed: bool) -> None\n\n"
                           "After it ran: did it end by an exception, which has been reported?");

PyDoc_STRVAR(compile_command_doc,
             "compile_command(code: str) -> CodeType | None\n\n"
             "Of the value of `-c`; None: it cannot be compiled, which has been reported.");

PyDoc_STRVAR(begin_code_doc, "begin_code(code: CodeType) -> None\n\n"
                             "Run it in `__main__`.");

PyDoc_STRVAR(begin_call_doc,
             "begin_call(beginner, function, *arguments) -> object\n\n"
             "Call a function that calls `beginner`, which runs a program by exec().");

PyDoc_STRVAR(end_program_doc,
             "end_program(error: BaseException | None, finder: str | None) -> object\n\n"
             "After begin_code or begin_call: what reports the error when it is let go of.");

PyDoc_STRVAR(never_began_doc,
             "never_began() -> bool\n\n"
             "Has the program ended before any of its code ran: not found, or not compiled?");

PyDoc_STRVAR(call_apart_doc,
             "call_apart(function, *args, **kwargs) -> object\n\n"
             "Call a function in the main thread: what leads to the call is no part "
             "of its stack in a profile.  launcher() is to be kept, and put back.");

PyDoc_STRVAR(call_as_own_doc,
             "call_as_own(function, *args, **kwargs) -> object\n\n"
             "Call a function of ours: what it does meanwhile is no part of a profile that runs.");

static PyObject *call_as_own(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    if (n < 1)
        return PyErr_Format(PyExc_TypeError, "call_as_own needs a function");
    struct own_work work;
    uint32_t generation = sampler_generation();
    own_work_begin(&work);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), names);
    own_work_end(&work, generation && generation == sampler_generation());
    return result;
}

PyDoc_STRVAR(launcher_doc, "launcher(*kept: int) -> tuple[int, int]\n\n"
                           "Where the program begins; `kept`: there it begins from now on.");

PyDoc_STRVAR(mark_launcher_doc, "mark_launcher() -> None\n\n"
                                "The functions that run now are not the program's.");

PyDoc_STRVAR(whole_write_doc, "whole_write(raw) -> function\n\n"
                              "`raw.write` that goes on where a signal cuts it short.");

PyDoc_STRVAR(quiet_forks_doc, "quiet_forks(n_ours: int, texts: tuple, entry: tuple) -> None\n\n"
                              "Nobody is warned at forks of so many threads.");

PyDoc_STRVAR(before_fork_doc, "before_fork() -> None\n\n"
                              "Put the filter of quiet_forks first.");

PyDoc_STRVAR(warns_of_ours_doc, "warns_of_ours(text: str) -> bool\n\n"
                                "Is this a warning at a fork, and do no threads live but ours?");

PyDoc_STRVAR(forget_forks_doc, "forget_forks() -> None\n\n"
                               "Take this filter away.");

PyDoc_STRVAR(thread_count_doc, "thread_count() -> int\n\n"
                               "The kernel's; -1: not known.");

PyDoc_STRVAR(open_tool_doc, "open_tool(path: bytes) -> None\n\n"
                            "Load a tool of other systems' instrumentation.  Raises OSError.");

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_VARARGS | METH_KEYWORDS, start_doc},
    {"stop", stop, METH_VARARGS, stop_doc},
    {"emit", emit, METH_VARARGS, emit_doc},
    {"open_tool", native_open_tool, METH_O, open_tool_doc},
    {"close_emit", close_emit, METH_NOARGS, close_emit_doc},
    {"signpost", signpost, METH_O, signpost_doc},
    {"running", running, METH_NOARGS, running_doc},
    {"hold_calls", hold_calls, METH_O, hold_calls_doc},
    {"calls_of", calls_of, METH_O, calls_of_doc},
    {"session", session, METH_NOARGS, session_doc},
    {"open_windows", open_windows, METH_NOARGS, open_windows_doc},
    {"forget", forget, METH_NOARGS, forget_doc},
    {"after_fork_in_child", process_hooks_after_fork_child, METH_O, after_fork_in_child_doc},
    {"after_fork_in_parent", process_hooks_after_fork_parent, METH_NOARGS,
     after_fork_in_parent_doc},
    {"await_program", await_program, METH_VARARGS, await_program_doc},
    {"child_records", child_records, METH_NOARGS, child_records_doc},
    {"pause", pause_all, METH_NOARGS, pause_doc},
    {"flush", flush, METH_NOARGS, flush_doc},
    {"read_clock", read_clock, METH_O, read_clock_doc},
    {"enter_caller", region_enter_caller, METH_O, enter_caller_doc},
    {"resume", resume_all, METH_NOARGS, resume_doc},
    {"write_meta", write_meta, METH_O, write_meta_doc},
    {"name_thread", name_thread, METH_VARARGS, name_thread_doc},
    {"await_code", await_code, METH_VARARGS, await_code_doc},
    {"tell_instances", tell_instances, METH_VARARGS, tell_instances_doc},
    {"watch_calls", watch_calls, METH_VARARGS, watch_calls_doc},
    {"tell_opaque", tell_opaque, METH_O, tell_opaque_doc},
    {"watch_inputs", watch_inputs, METH_VARARGS, watch_inputs_doc},
    {"on_noted", on_noted, METH_O, on_noted_doc},
    {"on_watched", on_watched, METH_O, on_watched_doc},
    {"log_events", log_events, METH_O, log_events_doc},
    {"write_device_work", write_device_work, METH_VARARGS, write_device_work_doc},
    {"mark_launcher", program_mark_launcher, METH_NOARGS, mark_launcher_doc},
    {"await_end", await_end, METH_VARARGS, await_end_doc},
    {"end_file", (PyCFunction)(void (*)(void))program_end_file, METH_FASTCALL, end_file_doc},
    {"compile_command", program_compile_command, METH_O, compile_command_doc},
    {"begin_code", program_begin_code, METH_O, begin_code_doc},
    {"begin_call", (PyCFunction)(void (*)(void))program_begin_call, METH_FASTCALL, begin_call_doc},
    {"end_program", (PyCFunction)(void (*)(void))program_end, METH_FASTCALL, end_program_doc},
    {"never_began", program_never_began, METH_NOARGS, never_began_doc},
    {"call_apart", (PyCFunction)(void (*)(void))program_call_apart, METH_FASTCALL | METH_KEYWORDS,
     call_apart_doc},
    {"call_as_own", (PyCFunction)(void (*)(void))call_as_own, METH_FASTCALL | METH_KEYWORDS,
     call_as_own_doc},
    {"launcher", program_launcher, METH_VARARGS, launcher_doc},
    {"whole_write", whole_write, METH_O, whole_write_doc},
    {"quiet_forks", fork_warning_quiet, METH_VARARGS, quiet_forks_doc},
    {"before_fork", fork_warning_before, METH_NOARGS, before_fork_doc},
    {"warns_of_ours", fork_warning_matches, METH_O, warns_of_ours_doc},
    {"forget_forks", fork_warning_forget, METH_NOARGS, forget_forks_doc},
    {"thread_count", fork_warning_threads, METH_NOARGS, thread_count_doc},
    {NULL, NULL, 0, NULL},
};

static void announce_region(uint32_t number, const char *name, uint32_t length)
{
    struct spool_region head = {.number = number};
    sampler_post(SPOOL_REGION, &head, sizeof head, name, length);
}

static const struct region_session region_session = {sampler_generation, announce_region,
                                                     emit_name_region};

/* For libpyhybrid.so. */
__attribute__((visibility("default"))) pyhybrid_listener_call pyhybrid_listener;

void pyhybrid_listener(pyhybrid_listen_call *listen)
{
    native_region_listen(listen);
}

/* For options whose words they are (options/kinds.py). */
static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } constants[] = {
        {"CLOCK_CPU", CLOCK_CPU},
        {"CLOCK_WALL", CLOCK_WALL},
        {"ENGINE_AUTO", ENGINE_AUTO},
        {"ENGINE_PERF_EVENT", ENGINE_PERF_EVENT},
        {"ENGINE_TIMER", ENGINE_TIMER},
        {"ENGINE_SIGTRAP", ENGINE_SIGTRAP},
        {"ENGINE_NONE", ENGINE_NONE},
        {"USAGE_CPU", USAGE_CPU},
        {"USAGE_MEMORY", USAGE_MEMORY},
        {"USAGE_PROCESS", USAGE_PROCESS},
        {"EMIT_VALUE_NONE", EMIT_VALUE_NONE},
        {"EMIT_VALUE_TEXT", EMIT_VALUE_TEXT},
        {"EMIT_VALUE_REPR", EMIT_VALUE_REPR},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value))
            return -1;
    return 0;
}

static int exec_module(PyObject *module)
{
    if (add_constants(module) || PyModule_AddFunctions(module, end_methods) ||
        window_add_type(module) || program_add_file_type(module))
        return -1;
    PyObject *later = PyCapsule_New((void *)&backward_api, BACKWARD_CAPSULE, NULL);
    int failed = later ? PyModule_AddObjectRef(module, BACKWARD_CAPSULE, later) : -1;
    Py_XDECREF(later);
    if (failed)
        return -1;
    native_region_init(&region_session);
    return region_add_type(module, &region_session);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, exec_module},
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "pyhybrid._native",
    .m_doc = "The part of pyhybrid that runs in the profiled program.", .m_methods = methods,
    .m_slots = slots};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
