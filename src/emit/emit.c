/* Sinks: which are open, and what they want.  What they are called with is in emit_turns.c. */
#include <Python.h>

#include "open_sinks.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

struct open_sinks open_sinks;
static _Atomic uint32_t detailed;
static void (*_Atomic on_change)(void); /* NULL: events are not ready to be changed */

/* --- which sinks ---------------------------------------------------------------------------------- */

static PyObject *refuse(int error, const char *why)
{
    PyObject *value = Py_BuildValue("(is)", error, why);
    if (value)
        PyErr_SetObject(PyExc_OSError, value);
    Py_XDECREF(value);
    return NULL;
}

PyObject *emit_open(const char *path, const char *argument, enum emit_values of_values)
{
    char message[200] = "";
    if (open_sinks.n == EMIT_SINKS)
        return refuse(EINVAL, "there are too many at once");
    PyThreadState *state = PyEval_SaveThread(); /* the loader may wait for one that waits for it */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    PyEval_RestoreThread(state);
    if (!library)
        return refuse(ENOENT, dlerror());
    const struct emit_sink *ops = dlsym(library, EMIT_SINK_SYMBOL);
    if (!ops || ops->size != sizeof *ops)
        return refuse(ENOENT, "it is of another version");
    for (uint32_t i = 0; i < open_sinks.n; i++)
        if (open_sinks.sink[i].ops == ops)
            return refuse(EINVAL, "it is asked for twice");
    state = PyEval_SaveThread();
    int code = ops->open(open_sinks.n, argument, message, sizeof message);
    PyEval_RestoreThread(state);
    if (code)
        return refuse(-code, *message ? message : strerror(-code));
    open_sinks.sink[open_sinks.n].ops = ops;
    atomic_store(&open_sinks.sink[open_sinks.n].wanted, 0);
    open_sinks.n++;
    open_sinks.values = of_values;
    return PyUnicode_DecodeFSDefault(message);
}

bool emit_is_open(void)
{
    return open_sinks.n;
}

uint32_t emit_wanted(void)
{
    uint32_t all_of_them = 0;
    for (uint32_t i = 0; i < open_sinks.n; i++)
        all_of_them |= atomic_load_explicit(&open_sinks.sink[i].wanted, memory_order_relaxed);
    return all_of_them;
}

uint32_t emit_detailed(void)
{
    return atomic_load_explicit(&detailed, memory_order_relaxed);
}

bool emit_flush(bool may_wait)
{
    bool done = true;
    for (uint32_t i = 0; i < open_sinks.n; i++)
        if (open_sinks.sink[i].ops->flush)
            done &= open_sinks.sink[i].ops->flush(may_wait);
    return done;
}

static void flush_at_last(void)
{
    PyThreadState *state = PyEval_SaveThread();
    while (!emit_flush(true))
        ; /* each waits for a moment */
    PyEval_RestoreThread(state);
}

PyObject *emit_remarks(void)
{
    flush_at_last();
    PyObject *remarks = PyList_New(0);
    for (uint32_t i = 0; remarks && i < open_sinks.n; i++) {
        char message[200] = "";
        if (open_sinks.sink[i].ops->remark)
            open_sinks.sink[i].ops->remark(message, sizeof message);
        PyObject *text = *message ? PyUnicode_DecodeFSDefault(message) : NULL;
        if (text)
            PyList_Append(remarks, text);
        Py_XDECREF(text);
    }
    return remarks;
}

void emit_close(void)
{
    atomic_store(&on_change, NULL);
    emit_settle();
    uint32_t n = open_sinks.n;
    if (!n)
        return;
    flush_at_last();
    open_sinks.n = 0;
    for (uint32_t i = 0; i < n; i++)
        open_sinks.sink[i].ops->close();
    emit_forget_names();
}

/* --- what they want ------------------------------------------------------------------------------- */

enum { NO_THREAD, RUNS, ENDED };
static _Atomic int changer_state;
static pthread_t changer;
static _Atomic uint64_t looked;

void emit_on_change(void (*changed)(void))
{
    atomic_store(&on_change, changed);
}

static void look(void)
{
    uint32_t with_text = 0, with_details = 0;
    bool of_others = false;
    for (uint32_t i = 0; i < open_sinks.n; i++) {
        uint32_t wanted = open_sinks.sink[i].ops->wants();
        atomic_store_explicit(&open_sinks.sink[i].wanted, wanted, memory_order_relaxed);
        of_others |= wanted && !(wanted & EMIT_OF_KEPT);
        with_text |= wanted & open_sinks.sink[i].ops->texts;
        with_details |= wanted & (EMIT_POINTS | open_sinks.sink[i].ops->details);
    }
    atomic_store_explicit(&open_sinks.of_kept, !of_others, memory_order_relaxed);
    atomic_store_explicit(&open_sinks.texts, with_text, memory_order_relaxed);
    atomic_store_explicit(&detailed, with_details, memory_order_relaxed);
}

static uint64_t of_look(void)
{
    return (uint64_t)emit_detailed() << 32 | emit_wanted();
}

void emit_looked(void)
{
    look();
    atomic_store(&looked, of_look());
}

static void *change(void *unused)
{
    PyGILState_STATE state = PyGILState_Ensure();
    void (*changed)(void) = atomic_load(&on_change);
    if (changed)
        changed();
    PyGILState_Release(state);
    atomic_store(&changer_state, ENDED);
    return unused;
}

/* Events cannot be switched without the GIL, for which the collector does not wait. */
void emit_look(void)
{
    if (!open_sinks.n || !atomic_load(&on_change))
        return;
    emit_flush(false);
    for (uint32_t i = 0; i < open_sinks.n; i++)
        if (open_sinks.sink[i].ops->look)
            open_sinks.sink[i].ops->look();
    look();
    if (atomic_load(&changer_state) == ENDED) {
        pthread_join(changer, NULL);
        atomic_store(&changer_state, NO_THREAD);
    }
    if (of_look() == atomic_load(&looked) || atomic_load(&changer_state) != NO_THREAD)
        return;
    atomic_store(&changer_state, RUNS);
    if (pthread_create(&changer, NULL, change, NULL)) /* with our signal mask: all are blocked */
        atomic_store(&changer_state, NO_THREAD);
    else
        pthread_setname_np(changer, "pyhybrid");
}

void emit_settle(void)
{
    if (atomic_load(&changer_state) == NO_THREAD)
        return;
    PyThreadState *state = PyEval_SaveThread();
    pthread_join(changer, NULL);
    PyEval_RestoreThread(state);
    atomic_store(&changer_state, NO_THREAD);
}

void emit_after_fork_child(void)
{
    open_sinks.n = 0;
    atomic_store(&on_change, NULL);
    atomic_store(&changer_state, NO_THREAD);
    emit_forget_event();
}
