/* Callbacks for sys.monitoring that do nothing, or nothing but read the time stamp counter: what an exact
 * profiler written in C cannot go below. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

struct callback {
    PyObject head;
    vectorcallfunc call;
};

static PyObject *nothing(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    (void)self, (void)args, (void)n, (void)names;
    Py_RETURN_NONE;
}

static PyObject *clock_only(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    static volatile unsigned long long last;
    (void)self, (void)args, (void)n, (void)names;
    last = __builtin_ia32_rdtsc();
    Py_RETURN_NONE;
}

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "callbacks.callback",
    .tp_basicsize = sizeof(struct callback),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(struct callback, call),
    .tp_call = PyVectorcall_Call,
};
static struct callback of_nothing = {PyObject_HEAD_INIT(&type).call = nothing};
static struct callback of_clock = {PyObject_HEAD_INIT(&type).call = clock_only};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "callbacks", .m_size = -1};

PyMODINIT_FUNC PyInit_callbacks(void)
{
    PyObject *module = PyType_Ready(&type) ? NULL : PyModule_Create(&definition);
    if (!module || PyModule_AddObjectRef(module, "nothing", &of_nothing.head) ||
        PyModule_AddObjectRef(module, "clock", &of_clock.head))
        return NULL;
    return module;
}
