/* calibrate.c - what counting a call costs on this machine.
 *
 * Context: with the GIL, while a session starts: its callbacks are registered, its events are off.
 *
 * What counting costs, measured at the start and taken off (compensate.py).
 *
 * The model: counting adds `call_ns` to a Python function's call by a Python function: a loop of
 * calls with the events, less the same loop without.  The callee's interval goes from the clock's
 * reading in the begin callback to that in the end callback, so a part of `call_ns` lies in it and is
 * charged to the callee: `inside_ns`, the interval of an empty callee (whose own two instructions
 * take little beside it).  The rest is charged to the caller's own time.  A turn of a generator is
 * taken to cost the same.
 *
 * Callbacks that C code leads to, or a new path, take longer than these.  Some of them are timed in the run (shadow.c): what they
 * take beyond `usual_ticks`, that of a begin or end of these calls that is timed in the same way, comes on top of `call_ns`.
 *
 * Each figure is the least of several short rounds: what else runs on the machine only adds.
 *
 * Source: PEP 669.
 */
#include "shadow.h"

#include <signal.h>

#include "filter.h"
#include "instrument.h"

#define CALLS 500
#define ROUNDS 20
#define TIMED_ROUNDS 3 /* in which each begin and end is timed */

static const char source[] = "def callee(): pass\n"
                             "def call(times, callee):\n"
                             "    for _ in times: callee()\n";

/* The functions above, new ones each time; NULL with an exception set. */
static PyObject *new_functions(void)
{
    PyObject *space = PyDict_New();
    PyObject *code = Py_CompileString(source, "<pyhybrid>", Py_file_input);
    PyObject *done = space && code ? PyEval_EvalCode(code, space, space) : NULL;
    Py_XDECREF(code);
    Py_XDECREF(done);
    if (!done)
        Py_CLEAR(space);
    return space;
}

static PyObject *code_of(PyObject *functions, const char *name)
{
    return PyFunction_GetCode(PyDict_GetItemString(functions, name)); /* borrowed */
}

static int set_events(PyObject *monitoring, int tool_id, PyObject *functions, long events)
{
    static const char *const names[] = {"callee", "call"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *code = code_of(functions, names[i]);
        if (monitoring_call(monitoring, "set_local_events", "(iOl)", tool_id, code, events))
            return -1;
    }
    return 0;
}

/* The node of the counted callee; NULL: no event came. */
static const struct exact_node *callee_node(const struct exact *x, PyObject *functions)
{
    if (exact_this_thread.generation != x->generation)
        return NULL;
    const struct exact_thread *t = exact_this_thread.thread;
    uint64_t id = codes_find(x->codes, (uint64_t)code_of(functions, "callee"));
    uint64_t word = frame_function(id, codes_numbers(x->codes, id).function);
    for (uint32_t i = 1; id && i <= atomic_load(&t->n); i++)
        if (exact_read_node(t, i)->word == word)
            return exact_read_node(t, i);
    return NULL;
}

static void keep_less(uint64_t *least, uint64_t ticks)
{
    if (ticks < *least)
        *least = ticks;
}

static int run(const struct exact *x, PyObject *functions, PyObject *times, uint64_t *least)
{
    PyObject *function = PyDict_GetItemString(functions, "call");
    PyObject *callee = PyDict_GetItemString(functions, "callee");
    uint64_t before = exact_ticks(x);
    PyObject *done = PyObject_CallFunctionObjArgs(function, times, callee, NULL);
    keep_less(least, exact_ticks(x) - before);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* A round in which no begin and end is the usual one, and all are timed.  Called from elsewhere, they have other nodes. */
static __attribute__((noinline)) int run_timed(struct exact *x, PyObject *functions,
                                               PyObject *times, uint64_t *least)
{
    bool plain = x->plain;
    uint64_t unused = UINT64_MAX;
    x->plain = false;
    x->slow = (struct callback_times){.until = 1, .stands_for = 1, .all = true};
    int error = run(x, functions, times, &unused);
    keep_less(least, (uint64_t)x->slow.ticks);
    x->plain = plain;
    x->slow.all = false;
    return error;
}

static int measure(struct exact *x, PyObject *bare, PyObject *counted, PyObject *times,
                   struct call_cost *cost)
{
    /* Of the fastest round of each kind. */
    uint64_t without = UINT64_MAX, with = UINT64_MAX, inside = UINT64_MAX, timed = UINT64_MAX;
    const struct exact_node *node = NULL;
    uint64_t ticks = exact_ticks(x), ns = clock_now_ns(), before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (run(x, bare, times, &without) || run(x, counted, times, &with))
            return -1;
        if (!node && !(node = callee_node(x, counted)))
            return 0;
        keep_less(&inside, atomic_load(&node->total_ticks) - before);
        before = atomic_load(&node->total_ticks);
        if (i < TIMED_ROUNDS && run_timed(x, counted, times, &timed))
            return -1;
    }
    ticks = exact_ticks(x) - ticks;
    ns = clock_now_ns() - ns;
    if (atomic_load(&node->calls) != (uint64_t)ROUNDS * CALLS || with <= without || !ticks)
        return 0;
    keep_less(&inside, with - without);
    double each = (double)ns / (double)ticks / CALLS;
    cost->call_ns = (double)(with - without) * each;
    cost->inside_ns = (double)inside * each;
    cost->usual_ticks = timed / (2 * CALLS);
    return 0;
}

static int measure_in(struct exact *scratch, PyObject *monitoring, int tool_id, long events,
                      struct call_cost *cost)
{
    PyObject *bare = new_functions();
    PyObject *counted = bare ? new_functions() : NULL;
    PyObject *times = counted ? PyObject_CallFunction((PyObject *)&PyRange_Type, "i", CALLS) : NULL;
    int error = -1;
    if (times && !set_events(monitoring, tool_id, counted, events)) {
        atomic_store(&exact_current, scratch);
        error = measure(scratch, bare, counted, times, cost);
        atomic_store(&exact_current, NULL);
    }
    PyObject *raised = PyErr_GetRaisedException();
    if (bare)
        PyDict_Clear(bare); /* a function and its globals hold each other */
    if (counted)
        PyDict_Clear(counted);
    Py_XDECREF(bare);
    Py_XDECREF(counted);
    Py_XDECREF(times);
    PyErr_SetRaisedException(raised);
    return error;
}

int calibrate_calls(const struct exact *x, PyObject *monitoring, int tool_id, long events,
                    struct call_cost *cost)
{
    /* Handlers of the program's that are due run now: not within, with all signals blocked. */
    if (PyErr_CheckSignals())
        return -1;
    struct codes *codes = codes_new();
    struct exact *scratch =
        codes ? exact_new(codes, x->layout, x->main_stack_high, x->max_nodes) : NULL;
    int error = 0;
    if (scratch) {
        /* Neither the program's sys.settrace and sys.setprofile nor its signal handlers shall see
         * our functions. */
        PyThreadState *state = PyThreadState_Get();
        Py_tracefunc trace = state->c_tracefunc, profile = state->c_profilefunc;
        sigset_t all, old;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        state->c_tracefunc = state->c_profilefunc = NULL;
        scratch->all_events = x->all_events;
        scratch->plain = x->plain;
        filter_let_through(true);
        error = measure_in(scratch, monitoring, tool_id, events, cost);
        filter_let_through(false);
        state->c_tracefunc = trace;
        state->c_profilefunc = profile;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    exact_free(scratch);
    codes_free(codes);
    return error;
}
