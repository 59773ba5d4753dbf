/* Source: CPython Modules/main.c (pymain_run_file_obj, pymain_run_stdin,
 * pymain_run_command, pymain_run_module), Python/pythonrun.c (_PyRun_SimpleFile, PyErr_Print). */
#include "program.h"

#include <stdio.h>

#define COMMAND "<string>" /* its file name */

#if PY_VERSION_HEX < 0x030d0000
#define C_LIMIT C_RECURSION_LIMIT
#elif PY_VERSION_HEX < 0x030e0000
#define C_LIMIT Py_C_RECURSION_LIMIT
#endif

/* The program may recurse as deep as if none of our frames lay below it. */
struct depth {
    int python, c;
};

static struct depth forget_depth(PyThreadState *ts)
{
    struct depth d = {.python = ts->py_recursion_limit - ts->py_recursion_remaining};
    ts->py_recursion_remaining += d.python;
#ifdef C_LIMIT
    d.c = C_LIMIT - ts->c_recursion_remaining;
    ts->c_recursion_remaining += d.c;
#endif
    return d;
}

static void recall_depth(PyThreadState *ts, struct depth d)
{
    ts->py_recursion_remaining -= d.python;
#ifdef C_LIMIT
    ts->c_recursion_remaining -= d.c;
#endif
}

static int run_stream(FILE *stream, const char *name, int close_it)
{
    PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    PyThreadState *ts = PyThreadState_Get();
    struct depth depth = forget_depth(ts);
    int failed = PyRun_AnyFileExFlags(stream, name, close_it, &flags);
    recall_depth(ts, depth);
    return failed;
}

PyObject *program_run_file(PyObject *self, PyObject *path)
{
    (void)self;
    if (path == Py_None)
        return PyBool_FromLong(!run_stream(stdin, "<stdin>", 0));
    const char *name = PyBytes_AsString(path);
    if (!name)
        return NULL;
    FILE *file = fopen(name, "rbe");
    if (!file)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    return PyBool_FromLong(!run_stream(file, name, 1));
}

/* Since 3.13 tracebacks show the lines of a command, too (run_mod in Python/pythonrun.c): found by
 * file name, in later releases by code object. */
static int register_source(PyObject *code, PyObject *command)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *linecache = PyImport_ImportModule("linecache"), *result = NULL;
    PyObject *name = PyUnicode_FromString(COMMAND);
    if (linecache && name) {
        PyObject *key = PyObject_HasAttrString(linecache, "_interactive_cache") ? code : name;
        result = PyObject_CallMethod(linecache, "_register_code", "OOO", key, command, name);
    }
    Py_XDECREF(linecache);
    Py_XDECREF(name);
    Py_XDECREF(result);
    return result ? 0 : -1;
#else
    (void)code;
    (void)command;
    return 0;
#endif
}

static PyObject *evaluate_command(PyObject *command, PyObject *globals)
{
    PyCompilerFlags flags = {.cf_flags = PyCF_IGNORE_COOKIE,
                             .cf_feature_version = PY_MINOR_VERSION};
    const char *text = PyUnicode_AsUTF8(command);
    if (!text) {
        PySys_WriteStderr("Unable to decode the command from the command line:\n");
        return NULL;
    }
    PyObject *result = NULL;
    PyObject *code = Py_CompileStringExFlags(text, COMMAND, Py_file_input, &flags, -1);
    if (code && !register_source(code, command))
        result = PyEval_EvalCode(code, globals, globals);
    Py_XDECREF(code);
    return result;
}

PyObject *program_run_command(PyObject *self, PyObject *command)
{
    (void)self;
    PyObject *main = PyImport_AddModule("__main__");
    if (!main)
        return NULL;
    PyThreadState *ts = PyThreadState_Get();
    struct depth depth = forget_depth(ts);
    PyObject *result = evaluate_command(command, PyModule_GetDict(main));
    if (!result)
        PyErr_Print();
    recall_depth(ts, depth);
    Py_XDECREF(result);
    return PyBool_FromLong(result != NULL);
}

PyObject *program_run_call(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "run_call needs a function");
        return NULL;
    }
    PyThreadState *ts = PyThreadState_Get();
    struct depth depth = forget_depth(ts);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), NULL);
    if (!result)
        PyErr_Print();
    recall_depth(ts, depth);
    Py_XDECREF(result);
    return PyBool_FromLong(result != NULL);
}
