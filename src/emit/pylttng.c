/* The module `pylttng`: events `sysmon:function_stats` of LTTng-UST for whoever has measured functions, pyhybrid or not.
 *
 * It stands beside the package pyhybrid, and loads LTTng with that one's object (function_stats.h).  Of a forked child LTTng
 * would record the parent's number, so a child emits nothing. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "function_stats.h"
#include "plain_text.h"

static function_stats_emit_t *emit;
static function_stats_is_recorded_t *is_recorded;
static bool is_forked;

/* UTF-8 of a str, as bytes; what cannot be encoded is escaped.  For PyArg_ParseTuple. */
static int utf8(PyObject *text, void *bytes)
{
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "a name must be str, not %.200s", Py_TYPE(text)->tp_name);
        return 0;
    }
    PyObject *encoded = plain_text(text, "backslashreplace");
    *(PyObject **)bytes = encoded;
    if (!encoded)
        PyErr_NoMemory();
    return encoded != NULL;
}

PyDoc_STRVAR(trace_function_stats_doc,
             "trace_function_stats(filename, lineno, funcname, calls, total_time, avg_time=None)\n"
             "--\n\n"
             "Emit the event sysmon:function_stats; costs next to nothing where no session records "
             "it.\n\nTimes are in seconds; avg_time is total_time / calls unless it is given.");

static PyObject *trace_function_stats(PyObject *self, PyObject *args, PyObject *named)
{
    (void)self;
    static char *names[] = {"filename",   "lineno",   "funcname", "calls",
                            "total_time", "avg_time", NULL};
    PyObject *filename = NULL, *funcname = NULL, *average = Py_None;
    struct function_stats s = {0};
    long long calls;
    if (!PyArg_ParseTupleAndKeywords(args, named, "O&iO&Ld|O:trace_function_stats", names, utf8,
                                     &filename, &s.lineno, utf8, &funcname, &calls, &s.total_s,
                                     &average))
        goto end;
    s.filename = PyBytes_AS_STRING(filename);
    s.funcname = PyBytes_AS_STRING(funcname);
    s.calls = (uint64_t)calls;
    if (average != Py_None)
        s.avg_s = PyFloat_AsDouble(average);
    else if (calls)
        s.avg_s = s.total_s / (double)calls;
    if (calls < 0)
        PyErr_SetString(PyExc_ValueError, "calls must not be negative");
    if (!PyErr_Occurred() && !is_forked)
        emit(&s);
end:
    Py_XDECREF(filename);
    Py_XDECREF(funcname);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(is_recorded_doc, "is_recorded()\n--\n\n"
                              "Does a session of LTTng record the event just now?");

static PyObject *py_is_recorded(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(!is_forked && is_recorded());
}

static void after_fork_child(void)
{
    is_forked = true;
}

/* pyhybrid/libpyhybrid_lttng.so beside this object. */
static void *load(void)
{
    static const char name[] = "pyhybrid/libpyhybrid_lttng.so";
    Dl_info own;
    char path[4096];
    const char *slash = dladdr(load, &own) ? strrchr(own.dli_fname, '/') : NULL;
    int folder = slash ? (int)(slash + 1 - own.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        PyErr_Format(PyExc_ImportError,
                     "pylttng needs LTTng (Debian, Ubuntu: liblttng-ust-dev where pyhybrid is "
                     "built, liblttng-ust1 where it runs): %s",
                     dlerror());
    return library;
}

static int set_up(PyObject *module)
{
    (void)module;
    if (emit)
        return 0;
    void *library = load();
    if (!library)
        return -1;
    is_recorded = (function_stats_is_recorded_t *)dlsym(library, FUNCTION_STATS_IS_RECORDED);
    emit = (function_stats_emit_t *)dlsym(library, FUNCTION_STATS_EMIT);
    if (!emit || !is_recorded) {
        PyErr_SetString(PyExc_ImportError, "pylttng and pyhybrid are of different versions");
        return -1;
    }
    pthread_atfork(NULL, NULL, after_fork_child);
    return 0;
}

static PyMethodDef methods[] = {
    {"trace_function_stats", (PyCFunction)(void (*)(void))trace_function_stats,
     METH_VARARGS | METH_KEYWORDS, trace_function_stats_doc},
    {"is_recorded", py_is_recorded, METH_NOARGS, is_recorded_doc},
    {0},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pylttng",
    .m_doc = "Events of LTTng-UST for figures of functions.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_pylttng(void);
PyMODINIT_FUNC PyInit_pylttng(void)
{
    return PyModuleDef_Init(&definition);
}
