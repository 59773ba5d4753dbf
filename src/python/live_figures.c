/* live_figures.c - function_figures.h for Python: what a function has come to so far.
 *
 * Context: Python threads, with the GIL.
 */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static PyObject *code_of(const struct exact *x, uint64_t word)
{
    uint64_t id = frame_code_id(word);
    uint64_t code = id ? codes_at(x->codes, (uint32_t)(id & (CODES_SLOTS - 1))) : 0;
    return Py_NewRef(code && codes_holds(x->codes, id, code) ? (PyObject *)code : Py_None);
}

PyObject *live_figures(struct exact *x, PyObject *code, bool knows_deaths)
{
    struct function_figures *figures = NULL;
    size_t n = 0;
    int error = exact_figures_of(x, (uint64_t)code, &figures, &n);
    if (error)
        return PyErr_Format(PyExc_RuntimeError, "calls cannot be counted: %s", strerror(-error));
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *caller = knows_deaths ? code_of(x, figures[i].caller) : Py_NewRef(Py_None);
        PyObject *row = Py_BuildValue("NKK", caller, (unsigned long long)figures[i].calls,
                                      (unsigned long long)exact_ticks_to_ns(x, figures[i].ticks));
        if (!row || PyList_Append(list, row))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(figures);
    return list;
}
