/* A C extension that fires events of sys.monitoring for code that has no frame, as Cython's modules do that are compiled
 * for profiling (PyMonitoring_Fire..., CPython 3.13).
 *
 *     fires_events.call(function)   between a start and a return, or an unwind if it raises
 *     fires_events.call(None)       the same with nothing in between
 *     fires_events.in_thread()      on a thread that has no Python frame
 */
#include <Python.h>
#include <pthread.h>

#define N_EVENTS 3

static PyCodeObject *code;
static PyMonitoringState states[N_EVENTS];
static uint64_t version;

/* A new reference, or NULL with the exception of `function`. */
static PyObject *fire(PyObject *function)
{
    static const uint8_t events[N_EVENTS] = {
        PY_MONITORING_EVENT_PY_START, PY_MONITORING_EVENT_PY_RETURN, PY_MONITORING_EVENT_PY_UNWIND};
    PyMonitoring_EnterScope(states, &version, events, N_EVENTS);
    PyMonitoring_FirePyStartEvent(&states[0], (PyObject *)code, 0);
    PyObject *done = function == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(function);
    if (done)
        PyMonitoring_FirePyReturnEvent(&states[1], (PyObject *)code, 0, done);
    else
        PyMonitoring_FirePyUnwindEvent(&states[2], (PyObject *)code, 0);
    PyMonitoring_ExitScope();
    return done;
}

static PyObject *call(PyObject *self, PyObject *function)
{
    (void)self;
    return fire(function);
}

static void *body(void *unused)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(fire(Py_None));
    PyGILState_Release(state);
    return unused;
}

static PyObject *in_thread(PyObject *self, PyObject *unused)
{
    pthread_t thread;
    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call", call, METH_O, NULL}, {"in_thread", in_thread, METH_NOARGS, NULL}, {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "fires_events",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_fires_events(void)
{
    code = PyCode_NewEmpty("fired.pyx", "fired", 1);
    return code ? PyModule_Create(&definition) : NULL;
}
