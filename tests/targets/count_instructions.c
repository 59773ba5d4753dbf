/* How many instructions a call of a Python function takes: the processor traps after each one.  Called with the GIL
 * (ctypes.PyDLL). */
#include <Python.h>

#include <signal.h>

#include "step_through.h"

__attribute__((visibility("default"))) unsigned long count_instructions(PyObject *function);

static volatile unsigned long steps;

static void on_step(int signal)
{
    (void)signal;
    steps++;
}

static void call(void *function)
{
    Py_XDECREF(PyObject_CallNoArgs(function));
}

unsigned long count_instructions(PyObject *function)
{
    struct sigaction action = {.sa_handler = on_step}, old;
    sigaction(SIGTRAP, &action, &old);
    steps = 0;
    step_through(call, function);
    sigaction(SIGTRAP, &old, NULL);
    return steps;
}
