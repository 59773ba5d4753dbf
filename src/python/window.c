/* window.c - `with window(session):`: a profile that counts only while a decorated function runs.
 *
 * While any window of a session is open, in any thread, it counts all threads; while none is, it is idle
 * (instrument_idle, sampler_idle): nothing counts, and opening and closing costs well below a microsecond.
 * A window of a session that has ended, or that a fork has left to the parent, does nothing.
 *
 * Context: Python threads, with the GIL.
 */
#include "native.h"

#include <stdbool.h>

#include "instrument.h"
#include "sampler.h"

/* How many windows of `current` are open. */
static uint32_t current, n_open;

struct window {
    PyObject head;
    uint32_t session;
    bool is_open;
};

static void open_window(struct window *w)
{
    if (w->is_open || !w->session || w->session != sampler_generation())
        return;
    if (current != w->session)
        n_open = 0;
    current = w->session;
    w->is_open = true;
    if (n_open++)
        return;
    /* First what needs the GIL alone: others may call meanwhile, and each call is to count. */
    instrument_active();
    if (sampler_active())
        instrument_active(); /* it took time that is nobody's */
}

static void close_window(struct window *w)
{
    if (!w->is_open)
        return;
    w->is_open = false;
    if (w->session != sampler_generation() || --n_open)
        return;
    instrument_idle();
    sampler_idle();
    if (n_open) /* opened by another thread meanwhile */
        sampler_active();
}

uint32_t window_n_open(void)
{
    return current && current == sampler_generation() ? n_open : 0;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    open_window((struct window *)self);
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *const *unused, Py_ssize_t n)
{
    (void)unused;
    (void)n;
    close_window((struct window *)self);
    Py_RETURN_NONE;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *names)
{
    unsigned int session;
    if ((names && PyDict_GET_SIZE(names)) || !PyArg_ParseTuple(args, "I", &session))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "window(session)");
    struct window *w = PyObject_New(struct window, type);
    if (!w)
        return NULL;
    w->session = session;
    w->is_open = false;
    return &w->head;
}

static void destroy(PyObject *self)
{
    close_window((struct window *)self);
    PyObject_Free(self);
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject window_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyhybrid._native.window",
    .tp_basicsize = sizeof(struct window),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .tp_new = make,
    .tp_dealloc = destroy,
    .tp_methods = methods,
    .tp_doc = "window(session: int)\n--\n\nFor `with`: while one is open the session counts.",
};

int window_add_type(PyObject *module)
{
    return PyType_Ready(&window_type)
               ? -1
               : PyModule_AddObjectRef(module, "window", (PyObject *)&window_type);
}
