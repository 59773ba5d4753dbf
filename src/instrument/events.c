/* The callbacks of sys.monitoring, and which events they are registered for.
 *
 * Sources: PEP 669; Python/instrumentation.c, Objects/call.c of CPython 3.12 to 3.15. */
#include "current_frame.h" /* first: it defines Py_BUILD_CORE */

#include "instrument.h"
#include "shadow.h"
#include "emit.h"
#include "filter.h"
#include "instances.h"
#include "tasks.h"
#include "backward_work.h"
#include "native_region.h"

/* A callback: what its vectorcall slot does is all there is to it.  Static, so nothing that the GC or
 * reference counts could take away. */
struct callback {
    PyObject head;
    vectorcallfunc call;
};

static PyTypeObject callback_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyhybrid._native.callback",
    .tp_basicsize = sizeof(struct callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(struct callback, call),
    .tp_call = PyVectorcall_Call,
    .tp_doc = "Called by sys.monitoring.",
};

#define CALLBACK(function) {.head = PyObject_HEAD_INIT(&callback_type).call = function}
#define TURN(name, kind)                                                                           \
    "PY_" #kind, CALLBACK(shadow_on_##name), CALLBACK(emitted_on_##name), EMIT_BIT(EMIT_##kind)
static struct {
    const char *name;
    struct callback object,
        emitted; /* the latter while a sink wants to know more of one of these: */
    uint32_t kinds;
} events[] = {
    {TURN(start, START)},
    {TURN(resume, RESUME)},
    {TURN(throw, THROW)},
    {TURN(return, RETURN)},
    {TURN(yield, YIELD)},
    {TURN(unwind, UNWIND)},
    {"CALL", CALLBACK(c_calls_on_call), CALLBACK(emitted_on_call), EMIT_BIT(EMIT_CALL)},
    {"C_RETURN", CALLBACK(c_calls_on_return), CALLBACK(NULL), 0},
    {"C_RAISE", CALLBACK(c_calls_on_raise), CALLBACK(NULL), 0},
    {"LINE", CALLBACK(lines_on_line), CALLBACK(emitted_on_line), EMIT_BIT(EMIT_LINE)},
};
#define N_EVENTS (sizeof events / sizeof *events)
#define LINE (N_EVENTS - 1) /* on for single code objects only, but where a sink wants it */
#define N_C_EVENTS 3        /* those before it: only where calls of C functions are counted */
static bool c_events;

static bool for_sinks_alone; /* events are on only while a sink wants them */
static uint32_t delivered;   /* what sinks want, as far as the events are so */
static uint32_t detailed;    /* of which they want to know more */

/* Is it one of the events that are on for all code?  Of turns all are, or none. */
static bool is_global(size_t i)
{
    uint32_t kinds = events[i].kinds;
    if (delivered & (kinds & EMIT_TURNS ? EMIT_TURNS : kinds))
        return true;
    return !for_sinks_alone && i < LINE && (c_events || i < LINE - N_C_EVENTS);
}

static int tool_id = -1;
static PyObject *disable; /* sys.monitoring.DISABLE */
static bool has_disabled;

/* The code objects whose LINE events are on; NULL: no lines are wanted.  The events go with us: 3.12 and
 * 3.13 would leave them to whoever takes the tool id next. */
static struct codes *with_lines;

static void set_local(PyObject *monitoring, uint64_t code, const char *event)
{
    long bit = event ? monitoring_event(monitoring, event) : 0;
    if (bit >= 0)
        monitoring_call(monitoring, "set_local_events", "(iOl)", tool_id, (PyObject *)code, bit);
    PyErr_Clear();
}

static void set_lines(PyObject *monitoring, bool on)
{
    for (uint32_t i = 0; with_lines && i < CODES_SLOTS; i++)
        if (codes_at(with_lines, i))
            set_local(monitoring, codes_at(with_lines, i), on ? "LINE" : NULL);
}

void instrument_add_lines(uint64_t code)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    bool added = false;
    if (monitoring && codes_add(with_lines, code, &added) && added)
        set_local(monitoring, code, "LINE");
}

void instrument_forget_code(uint64_t code)
{
    if (with_lines)
        codes_forget(with_lines, code);
}

/* The events that are on: all of ours, or none.  0 or -1. */
static int set_events(PyObject *monitoring, bool on)
{
    long mask = 0;
    for (size_t i = 0; on && i < N_EVENTS; i++) {
        if (!is_global(i))
            continue;
        long bit = monitoring_event(monitoring, events[i].name);
        if (bit < 0)
            return -1;
        mask |= bit;
    }
    return monitoring_call(monitoring, "set_events", "(il)", tool_id, mask);
}

/* 0 or -1. */
static int register_all(PyObject *monitoring)
{
    for (size_t i = 0; i < N_EVENTS; i++) {
        long bit = monitoring_event(monitoring, events[i].name);
        bool emits = detailed & events[i].kinds;
        if (bit < 0 ||
            monitoring_call(monitoring, "register_callback", "(ilO)", tool_id, bit,
                            (PyObject *)(emits ? &events[i].emitted : &events[i].object)))
            return -1;
    }
    return 0;
}

void (*instrument_thread_begins)(void);

static bool meets;               /* the one event of instrument_meet is on */
static PyObject *first_function; /* of instrument_meet_thread: its code object; NULL: none */

/* In this order: 3.12 and 3.13 leave events and callbacks live when an id is given back. */
static void switch_off(PyObject *monitoring)
{
    set_events(monitoring, false);
    PyErr_Clear();
    if (meets && atomic_load(&instance_method))
        set_local(monitoring, atomic_load(&instance_method), NULL);
    meets = false;
    if (first_function)
        set_local(monitoring, (uint64_t)first_function, NULL);
    Py_CLEAR(first_function);
    set_lines(monitoring, false);
    codes_free(with_lines);
    with_lines = NULL;
    for (size_t i = 0; i < N_EVENTS; i++) {
        long bit = monitoring_event(monitoring, events[i].name);
        if (bit >= 0)
            monitoring_call(monitoring, "register_callback", "(ilO)", tool_id, bit, Py_None);
        PyErr_Clear();
    }
    monitoring_call(monitoring, "free_tool_id", "(i)", tool_id);
    PyErr_Clear();
    tool_id = -1;
}

static PyObject *on_method(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self;
    (void)n;
    (void)names;
    if (args[0] == first_function) {
        if (instrument_thread_begins)
            instrument_thread_begins();
    } else if (meets) {
        shadow_enter();
        instances_meet((uint64_t)args[0]);
        shadow_leave();
    }
    Py_RETURN_NONE;
}

static struct callback method_begins = CALLBACK(on_method);

/* For the events of single functions.  0 or -1. */
static int claim_for_few(PyObject *monitoring)
{
    if (tool_id >= 0 && (meets || first_function))
        return 0;
    instrument_forget();
    if (!monitoring || PyType_Ready(&callback_type) || (tool_id = monitoring_claim(monitoring)) < 0)
        return -1;
    long bit = monitoring_event(monitoring, "PY_START");
    return bit < 0 ? -1
                   : monitoring_call(monitoring, "register_callback", "(ilO)", tool_id, bit,
                                     (PyObject *)&method_begins);
}

void instrument_meet_thread(PyObject *function)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *monitoring = PySys_GetObject("monitoring");
    PyObject *is = PyMethod_Check(function) ? PyMethod_GET_FUNCTION(function) : NULL;
    PyObject *code = is && PyFunction_Check(is) ? PyFunction_GET_CODE(is) : NULL;
    static bool refused; /* no id was free: it is not asked for again by each thread */
    if (!first_function && !refused && code &&
        !PyUnicode_CompareWithASCIIString(((PyCodeObject *)code)->co_qualname,
                                          "Thread._bootstrap")) {
        refused = claim_for_few(monitoring);
        if (!refused) {
            first_function = Py_NewRef(code);
            set_local(monitoring, (uint64_t)code, "PY_START");
        }
    }
    PyErr_SetRaisedException(error);
}

int instrument_meet(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (claim_for_few(monitoring))
        return -1;
    current_frame_init();
    meets = true;
    set_local(monitoring, atomic_load(&instance_method), "PY_START");
    return 0;
}

/* Sinks get from now on what they want, if events are set after it.  Returns 1 if they are to be, 0 if all is as it
 * was, -1 with an exception set. */
static int follow_sinks(struct exact *x, PyObject *monitoring)
{
    emit_looked();
    uint32_t wanted = emit_wanted(), more = emit_detailed();
    bool turns = wanted & EMIT_TURNS, were = x->turns & TURNS_EMITTED;
    x->turns = (uint8_t)((x->turns & TURNS_LOGGED) | (turns ? TURNS_EMITTED : 0));
    if (for_sinks_alone && were && !turns) /* what runs begins anew with the next one */
        shadow_close_all(x, exact_ticks(x));
    if (wanted == delivered && more == detailed)
        return 0;
    delivered = wanted;
    detailed = more;
    return register_all(monitoring) ? -1 : 1;
}

static void on_wanted(void)
{
    struct exact *x = atomic_load(&exact_current);
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (!x || !monitoring) {
        emit_looked(); /* resuming follows them */
        return;
    }
    if (follow_sinks(x, monitoring) > 0)
        set_events(monitoring, true);
    PyErr_Clear();
}

static uint64_t marks_of(struct exact *x, const struct exact_thread *t,
                         const struct exact_node *parent, uint64_t word, uint64_t code,
                         uint64_t globals)
{
    if (filter_has_own() && filter_is_own(code))
        return PYH_FUNCTION_OWN;
    bool is_kept = filter_keeps_any() && filter_keeps(x, code, (PyObject *)globals);
    return (is_kept ? PYH_FUNCTION_KEPT : 0) | watch_list_marks(t, parent, word, code);
}

/* What counting costs.  What runs already counts from the end of this on.  0 or -1. */
static int calibrate(struct exact *x, PyObject *monitoring, struct call_cost *cost)
{
    long start = monitoring_event(monitoring, "PY_START"),
         end = monitoring_event(monitoring, "PY_RETURN");
    bool known = cost->usual_ticks;
    bool sees_ours = monitoring_look_for_others(monitoring, tool_id);
    if (start < 0 || end < 0 ||
        (x->counts && !sees_ours && !known &&
         calibrate_calls(x, monitoring, tool_id, start | end, cost)))
        return -1;
    x->slow.usual = cost->usual_ticks;
    x->start_ticks = exact_ticks(x);
    return 0;
}

double instrument_more_ns(const struct exact *x)
{
    uint64_t ticks = exact_ticks(x) - x->origin_ticks, ns = clock_now_ns() - x->origin_ns;
    return ticks && x->slow.ticks > 0 ? (double)x->slow.ticks * (double)ns / (double)ticks : 0;
}

int instrument_start(struct exact *x, bool lines, c_calls_announce *c_calls, struct call_cost *cost)
{
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    if (!monitoring || PyType_Ready(&callback_type)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "there is no sys.monitoring");
        return -1;
    }
    instrument_forget(); /* forked by C */
    if (c_calls && c_calls_start(c_calls))
        return -1;
    x->c_calls = c_calls;
    c_events = c_calls;
    for_sinks_alone = !x->counts;
    tool_id = monitoring_claim(monitoring);
    if (tool_id < 0)
        return -1;
    Py_XSETREF(disable, PyObject_GetAttrString(monitoring, "DISABLE"));
    if (!disable)
        return -1;
    shadow_disable = disable;
    /* What an earlier run disabled stays so; this arms every tool's places again. */
    if (has_disabled && monitoring_call(monitoring, "restart_events", "()"))
        PyErr_Clear();
    has_disabled = filter_is_set();
    x->all_events = !filter_is_set();
    x->marks = marks_of;
    x->lines = lines;
    current_frame_init();
    x->plain = x->all_events && x->use_tsc && current_state_offset;
    delivered = detailed = 0;
    if (lines && !(with_lines = codes_new()))
        PyErr_SetString(PyExc_RuntimeError, "no memory");
    else if (!register_all(monitoring) && !calibrate(x, monitoring, cost) &&
             follow_sinks(x, monitoring) >= 0) {
        atomic_store(&exact_current, x);
        if (!set_events(monitoring, true)) {
            tasks_start(x);
            emit_on_change(on_wanted);
            backward_start();
            if (x->counts)
                garbage_start();
            return tool_id;
        }
    }
    PyObject *error = PyErr_GetRaisedException();
    atomic_store(&exact_current, NULL);
    switch_off(monitoring);
    PyErr_SetRaisedException(error);
    return -1;
}

static struct exact *paused;

/* Paused with its events on: to switch them off and on again costs as much as some hundred of them, and all code that
 * runs in between its specialization. */
static bool idle;
static uint32_t n_idle_events;
#define IDLE_EVENTS_MAX 1000

static void events_off(void)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (monitoring) {
        set_events(monitoring, false);
        PyErr_Clear();
        set_lines(monitoring, false);
    }
    PyErr_SetRaisedException(error);
}

void instrument_pause(void)
{
    instrument_idle();
    if (!idle)
        return;
    idle = false;
    events_off();
}

int instrument_resume(void)
{
    struct exact *x = paused;
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (!x || !monitoring)
        return 0;
    x->start_ticks = exact_ticks(x);
    makers_skip(x);
    paused = NULL;
    int changed = follow_sinks(x, monitoring);
    atomic_store(&exact_current, x);
    if (changed < 0)
        return -1;
    if (!idle)
        set_lines(monitoring, true);
    bool are_on = idle && !changed;
    idle = false;
    return are_on ? 0 : set_events(monitoring, true);
}

void instrument_idle(void)
{
    struct exact *x = atomic_load(&exact_current);
    if (!x)
        return;
    uint64_t now = exact_ticks(x);
    atomic_store(&exact_current, NULL);
    native_region_settle();
    shadow_close_all(x, now);
    paused = x;
    idle = true;
    n_idle_events = 0;
}

void instrument_active(void)
{
    struct exact *x = atomic_load(&exact_current);
    if (x)
        x->start_ticks = exact_ticks(x);
    else if (instrument_resume())
        PyErr_Clear();
}

void instrument_idle_event(void)
{
    if (!idle || ++n_idle_events < IDLE_EVENTS_MAX)
        return;
    idle = false;
    events_off();
}

void instrument_program_begins(void)
{
    struct exact *x = atomic_load(&exact_current);
    if (x)
        shadow_close_own(x);
}

void instrument_stop(void)
{
    struct exact *x = paused ? paused : atomic_load(&exact_current);
    instrument_forget();
    if (!x)
        return;
    PyObject *error = PyErr_GetRaisedException();
    PyObject *monitoring = PySys_GetObject("monitoring");
    uint64_t now = exact_ticks(x);
    if (monitoring)
        switch_off(monitoring);
    atomic_store(&exact_current, NULL);
    garbage_stop();
    native_region_settle();
    backward_stop();
    tasks_stop();
    paused = NULL;
    idle = false;
    shadow_close_all(x, now);
    usage_stop();
    filter_clear();
    watch_list_clear();
    c_calls_stop();
    PyErr_SetRaisedException(error);
}

void instrument_forget(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (tool_id < 0 || !monitoring || atomic_load(&exact_current) || paused)
        return;
    PyObject *error = PyErr_GetRaisedException();
    switch_off(monitoring);
    PyErr_SetRaisedException(error);
}

void instrument_after_fork_child(void)
{
    exact_after_fork_child();
    backward_after_fork_child();
    native_region_after_fork_child();
    emit_after_fork_child();
    usage_stop();
    paused = NULL;
    idle = meets = false;
}
