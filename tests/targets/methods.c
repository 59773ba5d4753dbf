/* A C extension whose functions, all static, take CPU time: what Python calls, or reaches otherwise.
 *
 *     methods.spin(n)            each takes n turns of a loop
 *     Thing().work(n), Thing.made(n), Thing.fixed(n), Thing().value, Thing() + n, Thing() == n
 *     del Thing(n)               its tp_dealloc takes n turns
 *     methods.first(n), methods.second(n)    two names of one function
 *     methods.shared0(n) ... methods.shared9(n)    ten names of one function, as a binding generator has
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define N_SHARED 10

struct thing {
    PyObject head;
    long n;
};

static inline __attribute__((always_inline)) void turn(long n)
{
    for (volatile long i = 0; i < n; i++)
        ;
}

static PyObject *spin(PyObject *self, PyObject *n)
{
    (void)self;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(1);
}

static PyObject *twice_named(PyObject *self, PyObject *n)
{
    (void)self;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(2);
}

static PyObject *dispatch(PyObject *self, PyObject *n)
{
    (void)self;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(3);
}

static PyObject *work(PyObject *self, PyObject *n)
{
    (void)self;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(4);
}

static PyObject *made(PyObject *type, PyObject *n)
{
    (void)type;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(5);
}

static PyObject *fixed(PyObject *unused, PyObject *n)
{
    (void)unused;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(6);
}

static PyObject *get_value(PyObject *self, void *unused)
{
    (void)unused;
    turn(((struct thing *)self)->n);
    return PyLong_FromLong(7);
}

static int set_value(PyObject *self, PyObject *n, void *unused)
{
    (void)self, (void)unused;
    turn(PyLong_AsLong(n));
    return 0;
}

static PyObject *add(PyObject *self, PyObject *n)
{
    (void)self;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(8);
}

static PyObject *compare(PyObject *self, PyObject *n, int operator)
{
    (void)self, (void)operator;
    turn(PyLong_AsLong(n));
    return PyLong_FromLong(9);
}

static int initialize(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    return PyArg_ParseTuple(args, "|l", &((struct thing *)self)->n) ? 0 : -1;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    turn(((struct thing *)self)->n);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef thing_methods[] = {{"work", work, METH_O, NULL},
                                      {"made", made, METH_O | METH_CLASS, NULL},
                                      {"fixed", fixed, METH_O | METH_STATIC, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyGetSetDef thing_getset[] = {{"value", get_value, set_value, NULL, NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot thing_slots[] = {{Py_tp_methods, thing_methods},
                                    {Py_tp_getset, thing_getset},
                                    {Py_nb_add, add},
                                    {Py_tp_richcompare, compare},
                                    {Py_tp_init, initialize},
                                    {Py_tp_dealloc, dealloc},
                                    {0, NULL}};
static PyType_Spec thing_spec = {"methods.Thing", sizeof(struct thing), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, thing_slots};

static char shared_names[N_SHARED][8];
static PyMethodDef functions[3 + N_SHARED + 1] = {{"spin", spin, METH_O, NULL},
                                                  {"first", twice_named, METH_O, NULL},
                                                  {"second", twice_named, METH_O, NULL}};

static int add_type(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&thing_spec);
    int failed = !type || PyModule_AddObjectRef(module, "Thing", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_type}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "methods",
                                        .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit_methods(void)
{
    for (int i = 0; i < N_SHARED; i++) {
        PyOS_snprintf(shared_names[i], sizeof shared_names[i], "shared%d", i);
        functions[3 + i] = (PyMethodDef){shared_names[i], dispatch, METH_O, NULL};
    }
    return PyModuleDef_Init(&definition);
}
