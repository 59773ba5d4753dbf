/* program.c - runs the profiled program as the interpreter's own main does.
 *
 *     file = program_file(path)   or   code = compile_command(text)   or nothing to prepare
 *     next(filter(None, [file]))       begin_code(code)                  begin_call(beginner, function, ...)
 *     end_file(file, failed)           end_program(error, None)          end_program(error, its file)
 *
 * What begins it leaves its frame to the function of the interpreter that it calls (a tail call), and so does what
 * reports an error: no library but the interpreter's lies below the program.  Rust's standard library keeps the debug
 * information of four libraries; with a fifth on the stack each of its backtraces reads all of it anew.
 *
 * What ends a program (an exception, SystemExit, a hook that fails) is handled by the interpreter, and no traceback has
 * Python frames of ours.  SystemExit does not come back.
 *
 * Context: the main thread, with the GIL.
 *
 * Source: CPython Modules/main.c (pymain_run_file_obj, pymain_run_stdin,
 * pymain_run_command, pymain_run_module), Python/pythonrun.c (_PyRun_SimpleFile, PyErr_Print).
 */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "native.h"

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

static struct below below; /* .ts: NULL where it does not run */

static void begin(uint64_t cfa)
{
    PyThreadState *ts = PyThreadState_Get();
    below = (struct below){.ts = ts, .python = ts->py_recursion_limit - ts->py_recursion_remaining};
    ts->py_recursion_remaining += below.python;
#ifdef C_LIMIT
    below.c = C_LIMIT - ts->c_recursion_remaining;
    ts->c_recursion_remaining += below.c;
#endif
    atomic_store(&launcher.cfa, cfa);
    atomic_store(&launcher.frame, (uint64_t)frame_of_state(ts));
}

/* By the function that has this frame on the stack until the program ends, or leaves it to what it returns. */
#define BEGIN() begin((uint64_t)__builtin_dwarf_cfa())

static void end(void)
{
    if (!below.ts)
        return;
    atomic_store(&launcher.frame, 0);
    atomic_store(&launcher.cfa, 0);
    below.ts->py_recursion_remaining -= below.python;
#ifdef C_LIMIT
    below.ts->c_recursion_remaining -= below.c;
#endif
    below.ts = NULL;
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

/* The code of a source file has not yet been run: the interpreter reports that (the audit event exec). */
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

/* Is it a `.pyc` that this interpreter runs, whatever its name?  Where that cannot be found out any more, it may have
 * been. */
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

/* --- a file ----------------------------------------------------------------------------------------------- */

struct program_file {
    PyObject ob_base;
    PyObject *path; /* None: standard input */
    const char *name;
    FILE *stream; /* NULL: it has been run */
};

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O", &path))
        return NULL;
    const char *name = path == Py_None ? "<stdin>" : PyBytes_AsString(path);
    if (!name)
        return NULL;
    FILE *stream = path == Py_None ? stdin : fopen(name, "rbe");
    if (!stream)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, name);
    struct program_file *file = PyObject_New(struct program_file, type);
    if (!file)
        return NULL;
    file->path = Py_NewRef(path);
    file->name = name;
    file->stream = stream;
    return &file->ob_base;
}

static void file_dealloc(PyObject *self)
{
    struct program_file *file = (struct program_file *)self;
    if (file->stream && file->stream != stdin)
        fclose(file->stream);
    Py_DECREF(file->path);
    PyObject_Free(self);
}

static int file_run(PyObject *self)
{
    static PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    struct program_file *file = (struct program_file *)self;
    FILE *stream = file->stream;
    file->stream = NULL;
    atomic_store(&source_awaited, true);
    BEGIN();
    return PyRun_AnyFileExFlags(stream, file->name, stream != stdin, &flags);
}

static PyNumberMethods file_number = {.nb_bool = file_run};

static PyTypeObject program_file_type = {
    .ob_base = {PyObject_HEAD_INIT(NULL) 0},
    .tp_name = "pyhybrid._native.ProgramFile",
    .tp_basicsize = sizeof(struct program_file),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = file_new,
    .tp_dealloc = file_dealloc,
    .tp_as_number = &file_number,
};

int program_add_file_type(PyObject *module)
{
    return PyType_Ready(&program_file_type)
               ? -1
               : PyModule_AddObjectRef(module, "ProgramFile", (PyObject *)&program_file_type);
}

PyObject *program_end_file(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    end();
    if (n != 2 || !Py_IS_TYPE(args[0], &program_file_type)) {
        PyErr_SetString(PyExc_TypeError, "end_file needs a ProgramFile and whether it failed");
        return NULL;
    }
    const struct program_file *file = (const struct program_file *)args[0];
    bool awaited = atomic_exchange(&source_awaited, false);
    never_began = args[1] == Py_True && awaited && !has_traceback() &&
                  (file->path == Py_None || !may_be_compiled(file->name));
    Py_RETURN_NONE;
}

/* --- a command -------------------------------------------------------------------------------------------- */

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

PyObject *program_compile_command(PyObject *self, PyObject *text)
{
    (void)self;
    BEGIN();
    PyObject *code = compile_command(text);
    never_began = !code;
    if (!code)
        PyErr_Print();
    end();
    return code ? code : Py_NewRef(Py_None);
}

PyObject *program_begin_code(PyObject *self, PyObject *code)
{
    (void)self;
    PyObject *main = PyImport_AddModule("__main__");
    if (!main)
        return NULL;
    PyObject *globals = PyModule_GetDict(main);
    BEGIN();
    return PyEval_EvalCode(code, globals, globals);
}

/* --- a function that hands over to the program ------------------------------------------------------------ */

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

PyObject *program_begin_call(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n < 2 || !PyFunction_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "begin_call needs two functions");
        return NULL;
    }
    atomic_store(&beginner, (uint64_t)PyFunction_GET_CODE(args[0]));
    BEGIN();
    return PyObject_Vectorcall(args[1], args + 2, (size_t)(n - 2), NULL);
}

/* --- its end ---------------------------------------------------------------------------------------------- */

static PyObject *error_to_report;

/* Of a capsule: like all that begins the program, it leaves its frame to what it calls. */
static void report(PyObject *capsule)
{
    (void)capsule;
    PyErr_SetRaisedException(error_to_report);
    error_to_report = NULL;
    BEGIN();
    PyErr_Print(); /* SystemExit: here the program's exit functions run */
}

/* The first frame of its traceback, which is ours: that of who called begin_. */
static void leave_first_frame_out(PyObject *error)
{
    PyObject *traceback = PyException_GetTraceback(error);
    if (traceback) {
        PyObject *rest = (PyObject *)((PyTracebackObject *)traceback)->tb_next;
        PyException_SetTraceback(error, rest ? rest : Py_None);
        Py_DECREF(traceback);
    }
}

PyObject *program_end(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    end();
    bool handed_over = !atomic_exchange(&beginner, 0);
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "end_program needs an error and a file, or None");
        return NULL;
    }
    if (args[0] == Py_None)
        Py_RETURN_NONE;
    leave_first_frame_out(args[0]);
    if (args[1] != Py_None)
        never_began = !handed_over && is_not_found(args[0], args[1]);
    Py_XSETREF(error_to_report, Py_NewRef(args[0]));
    return PyCapsule_New(&error_to_report, NULL, report);
}

PyObject *program_call_apart(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_apart needs a function");
        return NULL;
    }
    atomic_store(&launcher.cfa, (uint64_t)__builtin_dwarf_cfa());
    atomic_store(&launcher.frame, (uint64_t)frame_of_state(PyThreadState_Get()));
    return PyObject_Vectorcall(args[0], args + 1, (size_t)(n - 1), names);
}

PyObject *program_launcher(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long frame = launcher_frame(), cfa = atomic_load(&launcher.cfa);
    PyObject *now = Py_BuildValue("KK", frame, cfa);
    if (!now || !PyArg_ParseTuple(args, "|KK", &frame, &cfa)) {
        Py_XDECREF(now);
        return NULL;
    }
    atomic_store(&launcher.frame, frame);
    atomic_store(&launcher.cfa, cfa);
    return now;
}
