/* at_exit.c - the exit function of a run: signals, and whether the program really ends.
 *
 * Handlers of the program that are Python code would run in ours, between any two of its instructions, and raise what they
 * like.  So this begins in C: they are held (late_signals.c) before an instruction of ours runs.
 *
 * Context: with the GIL.
 */
#include "ending.h"

#include <signal.h>
#include <stdbool.h>

/* SystemExit ends the program in Program._execute. */
static bool interpreter_ends(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame)
        return true;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int differs = PyUnicode_CompareWithASCIIString(code->co_qualname, "Program._execute");
    Py_DECREF(code);
    return !differs;
}

static bool is_handled(PyObject *signal, int number)
{
    PyObject *handler = PyObject_CallMethod(signal, "getsignal", "i", number);
    bool handled = handler && PyCallable_Check(handler);
    Py_XDECREF(handler);
    PyErr_Clear(); /* there may be no such signal */
    return handled;
}

/* For the interpreter they are set to be ignored, so it leaves them as they are when it is taken down. */
void at_exit_hold_signals(PyObject *signal)
{
    bool handled[NSIG];
    for (int i = 1; i < NSIG; i++)
        if ((handled[i] = is_handled(signal, i)))
            late_signal_hold(
                i); /* before Python's own is gone: it would warn of one that comes in between */
    for (int i = 1; i < NSIG; i++) {
        if (!handled[i])
            continue;
        Py_XDECREF(PyObject_CallMethod(signal, "signal", "il", i, (long)SIG_IGN));
        PyErr_Clear(); /* of a handler that had still to run */
        late_signal_hold(i);
    }
}

static bool dies_of_interrupt(void)
{
    PyObject *last = PySys_GetObject("last_exc");
    return last && PyErr_GivenExceptionMatches(last, PyExc_KeyboardInterrupt);
}

PyObject *at_exit_call(PyObject *signal, PyObject *finish)
{
    bool ends = interpreter_ends();
    if (ends)
        at_exit_hold_signals(signal);
    PyObject *result = PyObject_CallOneArg(finish, ends ? Py_True : Py_False);
    if (ends && dies_of_interrupt()) {
        Py_BEGIN_ALLOW_THREADS;
        exit_wait_now();
        Py_END_ALLOW_THREADS;
    }
    if (ends)
        late_signals_release();
    return result;
}
