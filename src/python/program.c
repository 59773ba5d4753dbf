/* Source: CPython Modules/main.c (pymain_run_file_obj, pymain_run_stdin,
 * pymain_run_command, pymain_run_module), Python/pythonrun.c (_PyRun_SimpleFile, PyErr_Print). */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "program.h"

#include <marshal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "launcher.h"

#define COMMAND "<string>" /* its file name */
#define PYC_HEAD 16        /* bytes before the code in a `.pyc` */
#define FROZEN "<frozen "  /* begins those of modules that are part of the interpreter */

#if PY_VERSION_HEX < 0x030d0000
#define C_LIMIT C_RECURSION_LIMIT
#elif PY_VERSION_HEX < 0x030e0000
#define C_LIMIT Py_C_RECURSION_LIMIT
#endif

/* What lies below the program: it may recurse as deep as if none of our frames did. */
struct below {
    PyThreadState *ts;
    int python, c;
};

static struct below begin(uint64_t cfa)
{
    PyThreadState *ts = PyThreadState_Get();
    struct below b = {.ts = ts, .python = ts->py_recursion_limit - ts->py_recursion_remaining};
    ts->py_recursion_remaining += b.python;
#ifdef C_LIMIT
    b.c = C_LIMIT - ts->c_recursion_remaining;
    ts->c_recursion_remaining += b.c;
#endif
    atomic_store(&launcher.cfa, cfa);
    atomic_store(&launcher.frame, (uint64_t)frame_of_state(ts));
    return b;
}

/* By the function that has this frame on the stack until the program ends. */
#define BEGIN() begin((uint64_t)__builtin_dwarf_cfa())

static void end(struct below b)
{
    atomic_store(&launcher.frame, 0);
    atomic_store(&launcher.cfa, 0);
    b.ts->py_recursion_remaining -= b.python;
#ifdef C_LIMIT
    b.ts->c_recursion_remaining -= b.c;
#endif
}

PyObject *program_mark_launcher(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    const frame_t *outermost = NULL;
    for (const frame_t *f = frame_of_state(PyThreadState_Get()); f; f = f->previous)
        if (!FRAME_IS_ENTRY(f))
            outermost = f;
    atomic_store(&launcher.outermost_frame, (uint64_t)outermost);
    atomic_store(&launcher.outermost_code, outermost ? FRAME_CODE(outermost) : 0);
    Py_RETURN_NONE;
}

/* Ended by an error before an instruction of the program's ran. */
static bool never_began;

PyObject *program_never_began(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(never_began);
}

/* The code of a source file has not yet been run: of that the interpreter tells (the audit event exec). */
static _Atomic bool source_awaited;

/* Of the import system, which is frozen, or of the file `finder`? */
static bool finds_program(const PyTracebackObject *entry, PyObject *finder)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    PyObject *start = PyUnicode_Substring(code->co_filename, 0, sizeof FROZEN - 1);
    bool finds = start && (!PyUnicode_CompareWithASCIIString(start, FROZEN) ||
                           !PyUnicode_Compare(code->co_filename, finder));
    Py_XDECREF(start);
    Py_DECREF(code);
    return finds;
}

/* Did only what finds the program run, until this exception ended it? */
static bool is_not_found(PyObject *exception, PyObject *finder)
{
    PyObject *traceback = PyException_GetTraceback(exception);
    const PyTracebackObject *entry = (PyTracebackObject *)traceback;
    while (entry && finds_program(entry, finder))
        entry = entry->tb_next;
    Py_XDECREF(traceback);
    return !entry;
}

/* After it has been reported. */
static bool has_traceback(void)
{
    PyObject *last = PySys_GetObject("last_exc");
    PyObject *traceback = last ? PyException_GetTraceback(last) : NULL;
    bool has = traceback != NULL;
    Py_XDECREF(traceback);
    return has;
}

static bool reads_code(FILE *file)
{
    if (PyMarshal_ReadLongFromFile(file) != PyImport_GetMagicNumber() ||
        fseek(file, PYC_HEAD, SEEK_SET))
        return false;
    PyObject *code = PyMarshal_ReadLastObjectFromFile(file);
    bool is_code = code && PyCode_Check(code);
    Py_XDECREF(code);
    PyErr_Clear();
    return is_code;
}

/* Is it a `.pyc` that this interpreter runs, whatever its name?  Where that cannot be told any more, it may have been. */
static bool may_be_compiled(const char *name)
{
    struct stat status;
    if (!stat(name, &status) && !S_ISREG(status.st_mode))
        return false; /* a pipe */
    FILE *file = fopen(name, "rbe");
    bool is_compiled = !file || reads_code(file);
    if (file)
        fclose(file);
    return is_compiled;
}

static int run_stream(FILE *stream, const char *name, int close_it)
{
    PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    return PyRun_AnyFileExFlags(stream, name, close_it, &flags);
}

PyObject *program_run_file(PyObject *self, PyObject *path)
{
    (void)self;
    const char *name = path == Py_None ? "<stdin>" : PyBytes_AsString(path);
    if (!name)
        return NULL;
    FILE *file = path == Py_None ? stdin : fopen(name, "rbe");
    if (!file)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    struct below below = BEGIN();
    atomic_store(&source_awaited, true);
    int failed = run_stream(file, name, file != stdin);
    bool awaited = atomic_exchange(&source_awaited, false);
    never_began =
        failed && awaited && !has_traceback() && (path == Py_None || !may_be_compiled(name));
    end(below);
    return PyBool_FromLong(!failed);
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

static PyObject *compile_command(PyObject *command)
{
    PyCompilerFlags flags = {.cf_flags = PyCF_IGNORE_COOKIE,
                             .cf_feature_version = PY_MINOR_VERSION};
    const char *text = PyUnicode_AsUTF8(command);
    if (!text) {
        PySys_WriteStderr("Unable to decode the command from the command line:\n");
        return NULL;
    }
    PyObject *code = Py_CompileStringExFlags(text, COMMAND, Py_file_input, &flags, -1);
    if (code && register_source(code, command))
        Py_CLEAR(code);
    return code;
}

PyObject *program_run_command(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "run_command needs a command and a function");
        return NULL;
    }
    PyObject *main = PyImport_AddModule("__main__");
    if (!main)
        return NULL;
    PyObject *globals = PyModule_GetDict(main), *result = NULL;
    struct below below = BEGIN();
    PyObject *code = compile_command(args[0]);
    never_began = !code;
    end(below);
    PyObject *begun = code ? PyObject_CallNoArgs(args[1]) : NULL;
    below = BEGIN();
    if (begun)
        result = PyEval_EvalCode(code, globals, globals);
    if (!result)
        PyErr_Print();
    end(below);
    Py_XDECREF(code);
    Py_XDECREF(begun);
    Py_XDECREF(result);
    return PyBool_FromLong(result != NULL);
}

/* The code of the function whose exec() begins the program; 0: there is none, or it has begun. */
static _Atomic uint64_t beginner;

bool program_begins_now(void)
{
    if (atomic_load_explicit(&source_awaited, memory_order_relaxed)) {
        if ((uint64_t)frame_of_state(PyThreadState_Get()) == launcher_frame())
            atomic_store(&source_awaited, false);
        return false;
    }
    uint64_t code = atomic_load_explicit(&beginner, memory_order_relaxed);
    const frame_t *f = code ? frame_of_state(PyThreadState_Get()) : NULL;
    if (!f || FRAME_CODE(f) != code)
        return false;
    const frame_t *entry = f->previous ? f->previous->previous : NULL;
    if (!entry || !FRAME_IS_ENTRY(entry) || (uint64_t)entry->previous != launcher_frame())
        return false;
    atomic_store(&beginner, 0);
    atomic_store(&launcher.frame, (uint64_t)f);
    return true;
}

PyObject *program_run_call(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n < 2 || !PyFunction_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "run_call needs two functions");
        return NULL;
    }
    struct below below = BEGIN();
    uint64_t frame = launcher_frame();
    PyObject *code = PyFunction_GET_CODE(args[0]), *finder = ((PyCodeObject *)code)->co_filename;
    atomic_store(&beginner, (uint64_t)code);
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, (size_t)(n - 2), NULL);
    bool handed_over = !atomic_exchange(&beginner, 0);
    atomic_store(&launcher.frame, frame);
    if (!result) {
        PyObject *exception = PyErr_GetRaisedException();
        never_began = !handed_over && is_not_found(exception, finder);
        PyErr_SetRaisedException(exception);
        PyErr_Print(); /* SystemExit: here the program's exit functions run */
    }
    end(below);
    Py_XDECREF(result);
    return PyBool_FromLong(result != NULL);
}

PyObject *program_call_apart(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_apart needs a function");
        return NULL;
    }
    uint64_t frame = launcher_frame(), cfa = atomic_load(&launcher.cfa);
    atomic_store(&launcher.cfa, (uint64_t)__builtin_dwarf_cfa());
    atomic_store(&launcher.frame, (uint64_t)frame_of_state(PyThreadState_Get()));
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), names);
    atomic_store(&launcher.frame, frame);
    atomic_store(&launcher.cfa, cfa);
    return result;
}
