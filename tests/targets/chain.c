/* chain: C functions with known names and a known order, that call back into Python.
 *
 * call_a(f): call_a -> a1 -> a2 -> f();  call_b and call_c alike.  spin(us) burns CPU time of the
 * calling thread in `burn`; hold(f) calls f from a thread that C made. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <time.h>

#define CHAIN __attribute__((noinline, noclone, no_icf, optimize("no-optimize-sibling-calls")))

static volatile long sink;

__attribute__((noinline)) static double cpu_us(void) /* perf script shows inlined functions */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

CHAIN static void burn(double us)
{
    double end = cpu_us() + us;
    while (cpu_us() < end)
        for (int i = 0; i < 2000; i++)
            sink += i;
}

#define LEVELS(x)                                                                                  \
    CHAIN static PyObject *x##2(PyObject * f)                                                      \
    {                                                                                              \
        PyObject *r = PyObject_CallNoArgs(f);                                                      \
        sink++;                                                                                    \
        return r;                                                                                  \
    }                                                                                              \
    CHAIN static PyObject *x##1(PyObject * f)                                                      \
    {                                                                                              \
        PyObject *r = x##2(f);                                                                     \
        sink++;                                                                                    \
        return r;                                                                                  \
    }                                                                                              \
    CHAIN static PyObject *call_##x(PyObject *self, PyObject *f)                                   \
    {                                                                                              \
        (void)self;                                                                                \
        PyObject *r = x##1(f);                                                                     \
        sink++;                                                                                    \
        return r;                                                                                  \
    }

LEVELS(a)
LEVELS(b)
LEVELS(c)

CHAIN static PyObject *spin(PyObject *self, PyObject *us)
{
    (void)self;
    double duration = PyFloat_AsDouble(us);
    if (PyErr_Occurred())
        return NULL;
    burn(duration);
    sink++;
    Py_RETURN_NONE;
}

/* The same without the GIL. */
CHAIN static PyObject *spin_released(PyObject *self, PyObject *us)
{
    (void)self;
    double duration = PyFloat_AsDouble(us);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS burn(duration);
    sink++;
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void *foreign(void *arg)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *r = a1(arg);
    Py_XDECREF(r);
    PyGILState_Release(state);
    return NULL;
}

/* Calls f from a thread that Python did not make. */
static PyObject *call_foreign(PyObject *self, PyObject *f)
{
    (void)self;
    pthread_t thread;
    Py_BEGIN_ALLOW_THREADS if (!pthread_create(&thread, NULL, foreign, f))
        pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* A thread that never meets Python burns `us` of CPU time. */
static void *native_only(void *arg)
{
    burn(*(double *)arg);
    return NULL;
}

static PyObject *native_thread(PyObject *self, PyObject *us)
{
    (void)self;
    pthread_t thread;
    double duration = PyFloat_AsDouble(us);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS if (!pthread_create(&thread, NULL, native_only, &duration))
        pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call_a", call_a, METH_O, NULL},
    {"call_b", call_b, METH_O, NULL},
    {"call_c", call_c, METH_O, NULL},
    {"spin", spin, METH_O, NULL},
    {"spin_released", spin_released, METH_O, NULL},
    {"call_foreign", call_foreign, METH_O, NULL},
    {"native_thread", native_thread, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "chain", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit_chain(void)
{
    return PyModule_Create(&definition);
}
