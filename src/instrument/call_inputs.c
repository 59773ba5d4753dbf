/* call_inputs.c - how many elements the tensor of integers has that a model is called with: its tokens.
 *
 * It is the first of those among the arguments, then among those by name, that have two dimensions or more (a batch of
 * sequences), or else the first that has one.  Only what is exactly of the tensors' class is looked at, and only while no mode
 * of the program's hears what is done with tensors: no code of the program runs.
 *
 * Context: the thread that calls, with the GIL.
 */
#include "shadow_stack.h" /* first: it defines Py_BUILD_CORE */

#include "instrument.h"
#include "watched_calls.h"

static PyObject *method, *tensor, *integers, *is_heard;
static uint64_t model; /* the function's number, once it was called */

void call_inputs_set(PyObject *code, PyObject *class, PyObject *types, PyObject *heard)
{
    model = 0;
    Py_XSETREF(method, Py_XNewRef(code));
    Py_XSETREF(tensor, Py_XNewRef(class));
    Py_XSETREF(integers, Py_XNewRef(types));
    Py_XSETREF(is_heard, Py_XNewRef(heard));
}

static bool has_integers(PyObject *o)
{
    PyObject *type = PyObject_GetAttrString(o, "dtype");
    bool is = false;
    for (Py_ssize_t i = 0; type && i < PyTuple_GET_SIZE(integers); i++)
        is |= type == PyTuple_GET_ITEM(integers, i);
    Py_XDECREF(type);
    return is;
}

/* Keeps the first of most dimensions, two counting as many. */
static void look_at(PyObject *o, Py_ssize_t *dimensions, uint64_t *elements)
{
    if ((PyObject *)Py_TYPE(o) != tensor || *dimensions >= 2 || !has_integers(o))
        return;
    PyObject *shape = PyObject_GetAttrString(o, "shape");
    if (!shape || !PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) <= *dimensions) {
        Py_XDECREF(shape);
        return;
    }
    *dimensions = PyTuple_GET_SIZE(shape);
    *elements = 1;
    for (Py_ssize_t i = 0; i < *dimensions; i++) {
        uint64_t size = (uint64_t)PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        *elements = size <= WATCHED_FREED_MOST && *elements * size <= WATCHED_FREED_MOST
                        ? *elements * size
                        : WATCHED_FREED_MOST;
    }
    Py_DECREF(shape);
}

bool call_inputs_is_model(uint64_t word)
{
    return model && (word & PYH_FUNCTION_MASK) == model;
}

uint32_t call_inputs_elements(const struct exact_frame *s)
{
    const frame_t *f = (const frame_t *)s->frame;
    if (LIKELY((PyObject *)FRAME_CODE(f) != method))
        return 0;
    model = s->node->word & PYH_FUNCTION_MASK;
    PyObject *error = PyErr_GetRaisedException();
    PyObject *heard = PyObject_CallNoArgs(is_heard);
    Py_ssize_t dimensions = 0, at = 0;
    uint64_t elements = 0;
    if (heard == Py_False) {
        PyObject *given = FRAME_LOCAL(f, 1), *by_name = FRAME_LOCAL(f, 2), *value;
        for (Py_ssize_t i = 0; given && PyTuple_CheckExact(given) && i < PyTuple_GET_SIZE(given);
             i++)
            look_at(PyTuple_GET_ITEM(given, i), &dimensions, &elements);
        while (by_name && PyDict_CheckExact(by_name) && PyDict_Next(by_name, &at, NULL, &value))
            look_at(value, &dimensions, &elements);
    }
    Py_XDECREF(heard);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
    return (uint32_t)elements;
}
