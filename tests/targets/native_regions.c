/* Regions of native code, by pyhybrid.h: with the GIL, without, and on threads that Python never saw. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <pyhybrid.h>
#include <time.h>

/* inside(name, function): called within the region. */
static PyObject *inside(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *function;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO", &name, &function))
        return NULL;
    const pyhybrid_region *r = pyhybrid_region_named(name);
    pyhybrid_region_push(r);
    PyObject *result = PyObject_CallNoArgs(function);
    pyhybrid_region_pop(r);
    return result;
}

static PyObject *push(PyObject *self, PyObject *name)
{
    (void)self;
    pyhybrid_region_push(pyhybrid_region_named(PyUnicode_AsUTF8(name)));
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *self, PyObject *name)
{
    (void)self;
    pyhybrid_region_pop(pyhybrid_region_named(PyUnicode_AsUTF8(name)));
    Py_RETURN_NONE;
}

struct work {
    const char *outer, *inner;
    int n;
    double seconds;
};

static __attribute__((noinline)) void native_burn(double seconds)
{
    struct timespec t;
    double now, end = 0;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
        if (end == 0)
            end = now + seconds;
    } while (now < end);
}

static _Atomic int stopped;

/* Of n inner ones; n < 0: until stop(). */
static void *work(void *arg)
{
    const struct work *w = arg;
    const pyhybrid_region *outer = pyhybrid_region_named(w->outer);
    const pyhybrid_region *inner = pyhybrid_region_named(w->inner);
    pyhybrid_region_push(outer);
    for (int i = 0; w->n < 0 ? !stopped : i < w->n; i += w->n >= 0) {
        pyhybrid_region_push(inner);
        pyhybrid_region_pop(inner);
    }
    native_burn(w->seconds);
    pyhybrid_region_pop(outer);
    return NULL;
}

static double measure(int n, int *ok)
{
    const pyhybrid_region *r = pyhybrid_region_named("timed");
    struct timespec a, b;
    *ok = !pyhybrid_region_named(NULL);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int i = 0; i < n; i++) {
        pyhybrid_region_push(r);
        pyhybrid_region_pop(r);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
}

/* without_gil(outer, inner, n, seconds): here. */
static PyObject *without_gil(PyObject *self, PyObject *args)
{
    struct work w;
    (void)self;
    if (!PyArg_ParseTuple(args, "ssid", &w.outer, &w.inner, &w.n, &w.seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    work(&w);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* in_threads(outer, inner, n, seconds, threads) */
static PyObject *in_threads(PyObject *self, PyObject *args)
{
    struct work w;
    int threads;
    pthread_t all[64];
    (void)self;
    if (!PyArg_ParseTuple(args, "ssidi", &w.outer, &w.inner, &w.n, &w.seconds, &threads))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_create(&all[i], NULL, work, &w);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(all[i], NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    stopped = 1;
    Py_RETURN_NONE;
}

struct visit {
    const char *name;
    PyObject *function;
};

static void *call_back(void *arg)
{
    const struct visit *v = arg;
    const pyhybrid_region *r = pyhybrid_region_named(v->name);
    pyhybrid_region_push(r);
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(PyObject_CallNoArgs(v->function));
    PyGILState_Release(state);
    pyhybrid_region_pop(r);
    return NULL;
}

/* inside_thread(name, function): within the region, on a thread that Python did not start. */
static PyObject *inside_thread(PyObject *self, PyObject *args)
{
    struct visit v;
    pthread_t thread;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO", &v.name, &v.function))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    pthread_create(&thread, NULL, call_back, &v);
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* ns(n, without_gil): CPU time of a pair. */
static PyObject *ns(PyObject *self, PyObject *args)
{
    int n, released, ok;
    double took;
    (void)self;
    if (!PyArg_ParseTuple(args, "ip", &n, &released))
        return NULL;
    PyThreadState *state = released ? PyEval_SaveThread() : NULL;
    took = measure(n, &ok);
    if (state)
        PyEval_RestoreThread(state);
    return ok ? PyFloat_FromDouble(took) : PyErr_NoMemory();
}

static PyMethodDef methods[] = {
    {"inside", inside, METH_VARARGS, NULL},
    {"push", push, METH_O, NULL},
    {"pop", pop, METH_O, NULL},
    {"without_gil", without_gil, METH_VARARGS, NULL},
    {"in_threads", in_threads, METH_VARARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"inside_thread", inside_thread, METH_VARARGS, NULL},
    {"ns", ns, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native_regions", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native_regions(void);

PyMODINIT_FUNC PyInit_native_regions(void)
{
    return PyModule_Create(&definition);
}
