/* process_hooks.c - what becomes of the process while a profiler runs: forks, execs, code objects that begin and die.
 *
 * Sources: pthread_atfork(3), PEP 578 (audit events), CPython Doc/c-api/code.rst (code watchers).
 *
 * Context: with the GIL; what libc calls around a fork is on the thread that forks, in the child the only one.
 */
#define Py_BUILD_CORE 1
#include "native.h"

#include <Python.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "emit.h"
#include "instances.h"
#include "instrument.h"
#include "ending.h"
#include "loader_lock.h"
#include "sampler.h"
#include "tasks.h"

#define PROGRAM_RUNS                                                                               \
    "cpython.run_" /* the audit events of the interpreter's main: a file, a module, a command... */

static __thread bool forks_by_python; /* PyOS_AfterFork_Child comes after this fork */
static sigset_t held_mask;            /* the thread's before its signals were held, in a child */
static bool holds_signals;

static int watcher = -1;
static bool program_awaited, program_resumes, program_interruptible;
static void (*in_forked_child)(void); /* NULL: not installed */

static void without_gil(void (*what)(void *), void *arg)
{
    PyThreadState *state = PyEval_SaveThread();
    what(arg);
    PyEval_RestoreThread(state);
}

static void before_fork(void)
{
    loader_before_fork();
    sampler_before_fork();
}

static void after_fork_parent(void)
{
    loader_after_fork_parent();
    sampler_after_fork_parent(!spawns_forks());
}

/* In a child: a handler of the program's that is Python code would run in ours, and what it raises would be lost. */
static void hold_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGTRAP); /* our own */
    sigdelset(&all, SIGPROF);
    holds_signals = !pthread_sigmask(SIG_SETMASK, &all, &held_mask);
}

static void release_signals(void)
{
    if (holds_signals)
        pthread_sigmask(SIG_SETMASK, &held_mask, NULL);
    holds_signals = false;
}

PyObject *process_hooks_after_fork_child(PyObject *self, PyObject *call)
{
    (void)self;
    forks_by_python = false;
    Py_XDECREF(PyObject_CallNoArgs(call));
    PyErr_Clear(); /* near the recursion's limit nothing can be called */
    release_signals();
    Py_RETURN_NONE;
}

PyObject *process_hooks_after_fork_parent(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    forks_by_python = false; /* also where it has failed */
    Py_RETURN_NONE;
}

static void after_fork_child(void)
{
    if (forks_by_python)
        hold_signals();
    in_forked_child();
    leave_unwatch();
    watcher_forget();
    spawns_unwatch();
    loader_after_fork_child();
    instrument_after_fork_child();
    sampler_after_fork_child();
}

/* It dies, or begins where one died: a sample whose links are stale may have met that one after its death. */
static int on_code_event(PyCodeEvent event, PyCodeObject *code)
{
    (void)event;
    sampler_forget_code((uint64_t)code);
    instrument_forget_code((uint64_t)code);
    instances_forget_code((uint64_t)code);
    return 0;
}

void process_hooks_await_program(bool resumes, bool lets_through)
{
    program_awaited = true;
    program_resumes = resumes;
    program_interruptible = lets_through;
}

static int resume_at_program(void)
{
    sigset_t interrupt;
    program_awaited = false;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    if (program_interruptible)
        pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    if (!program_resumes)
        return 0;
    sampler_resume();
    return instrument_resume();
}

static int on_audit(const char *event, PyObject *args, void *data)
{
    (void)data;
    if (!sampler_running())
        return 0;
    if (program_awaited && !strncmp(event, PROGRAM_RUNS, strlen(PROGRAM_RUNS)))
        return resume_at_program();
    if (!strncmp(event, "sys.", 4)) {
        monitoring_audit(event, args);
    } else if (!strcmp(event, "exec")) {
        if (program_begins_now())
            instrument_program_begins();
        if (PyTuple_GET_SIZE(args))
            tasks_code_runs(PyTuple_GET_ITEM(args, 0));
        return PyTuple_GET_SIZE(args) ? instances_code_runs(PyTuple_GET_ITEM(args, 0)) : 0;
    } else if (!strncmp(event, "_thread.start_", strlen("_thread.start_"))) {
        if (!sampler_exact() && PyTuple_GET_SIZE(args))
            instrument_meet_thread(PyTuple_GET_ITEM(args, 0));
    } else if (!strcmp(event, "os.fork") || !strcmp(event, "os.forkpty")) {
        forks_by_python = true;
    } else if (!strcmp(event, "os.kill") || !strcmp(event, "os.killpg") ||
               !strcmp(event, "signal.pthread_kill")) {
        leave_by_kill(event, args);
    } else if (strcmp(event, "os.exec")) {
        spawns_audit(event);
    } else if (!leave_by_exec(args)) {
        sampler_before_exec();
    }
    return 0;
}

int process_hooks_install(void (*in_child)(void))
{
    if (in_forked_child)
        return 0;
    if (PySys_AddAuditHook(on_audit, NULL))
        return -1;
    in_forked_child = in_child;
    instrument_thread_begins = sampler_thread_begins;
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    sampler_set_blocking(without_gil);
    sampler_set_look(emit_look);
    return 0;
}

bool process_hooks_watch_code(void)
{
    if (watcher < 0)
        watcher = PyCode_AddWatcher(on_code_event);
    if (watcher < 0)
        PyErr_Clear();
    return watcher >= 0;
}

void process_hooks_unwatch_code(void)
{
    if (watcher >= 0)
        PyCode_ClearWatcher(watcher);
    watcher = -1;
}

bool process_hooks_watches_code(void)
{
    return watcher >= 0;
}
