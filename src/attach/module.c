/* module.c - the extension module pyhybrid._attach: turns arguments into calls of inject.h and remote.h.
 *
 * Its stub, with what each function promises, is pyhybrid/_attach.pyi.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "inject.h"
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const results[] = {
    [INJECT_DONE] = "",         [INJECT_GONE] = "gone",       [INJECT_DENIED] = "denied",
    [INJECT_TRACED] = "traced", [INJECT_STOPPED] = "stopped", [INJECT_UNSAFE] = "unsafe",
    [INJECT_TIMEOUT] = "busy",  [INJECT_FAILED] = "failed",
};

struct report {
    int result, error;
    uint64_t stopped_ns;
};

/* In a process of its own: when it ends, the kernel lets go of whatever it has stopped, and no signal to us ends it. */
static struct report inject_apart(pid_t pid, pid_t tid, const struct inject_request *request)
{
    struct report report = {.result = INJECT_FAILED};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        report.error = errno;
        return report;
    }
    pid_t child = fork();
    if (child == 0) {
        setsid();
        report.result = (int)inject(pid, tid, request, &report.error, &report.stopped_ns);
        _exit(write(ends[1], &report, sizeof report) != (ssize_t)sizeof report);
    }
    if (child < 0)
        report.error = errno;
    close(ends[1]);
    if (child > 0) {
        for (int status; waitpid(child, &status, 0) < 0 && errno == EINTR;)
            ;
        if (read(ends[0], &report, sizeof report) != (ssize_t)sizeof report)
            report = (struct report){.result = INJECT_FAILED, .error = ECHILD};
    }
    close(ends[0]);
    return report;
}

static bool set_text(char *to, size_t size, const char *from)
{
    size_t n = strlen(from);
    if (n >= size)
        return false;
    memcpy(to, from, n + 1);
    return true;
}

static PyObject *py_inject(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pid", "tid", "functions", "runtime", "text", "file", "pending", NULL};
    int pid, tid, pending = 0;
    unsigned long long runtime;
    const char *text, *file;
    PyObject *functions;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iiO!Kss|p:inject", names, &pid, &tid,
                                     &PyDict_Type, &functions, &runtime, &text, &file, &pending))
        return NULL;
    struct inject_request q = {.by = pending ? INJECT_PENDING : INJECT_SLEEPER};
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"__errno_location", &q.in.errno_location},
        {"pthread_sigmask", &q.in.set_mask},
        {"pthread_create", &q.in.thread_create},
        {"pthread_detach", &q.in.thread_detach},
        {"munmap", &q.in.unmap},
        {"PyGILState_Ensure", &q.in.gil_ensure},
        {"PyGILState_Release", &q.in.gil_release},
        {"PyDict_New", &q.in.dict},
        {"Py_CompileString", &q.in.compile},
        {"PyEval_EvalCode", &q.in.eval},
        {"PyErr_Clear", &q.in.clear},
        {"Py_DecRef", &q.in.decref},
        {"Py_AddPendingCall", &q.add_pending},
        {"syscall instruction", &q.syscall_at},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        PyObject *found = PyDict_GetItemString(functions, wanted[i].name);
        uint64_t address = found ? PyLong_AsUnsignedLongLong(found) : 0;
        if (PyErr_Occurred())
            return NULL;
        if (!address)
            return PyErr_Format(PyExc_LookupError, "%s", wanted[i].name);
        memcpy(wanted[i].to, &address, sizeof address);
    }
    struct remote_interpreter interpreter;
    if (!remote_interpreter(pid, runtime, &interpreter))
        return PyErr_SetFromErrno(PyExc_OSError);
    q.lock = interpreter.pending_lock;
    q.lock_free = interpreter.pending_free;
    q.lock_mask = interpreter.pending_mask;
    q.gil_start = interpreter.gil;
    q.gil_end = interpreter.gil_end;
    if (!set_text(q.in.text, sizeof q.in.text, text) ||
        !set_text(q.in.file, sizeof q.in.file, file)) {
        PyErr_SetString(PyExc_ValueError, "the text or the file's name is too long");
        return NULL;
    }
    struct report report;
    Py_BEGIN_ALLOW_THREADS report = inject_apart(pid, tid, &q);
    Py_END_ALLOW_THREADS return Py_BuildValue("(siK)", results[report.result], report.error,
                                              (unsigned long long)report.stopped_ns);
}

static PyObject *py_interpreter(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long runtime;
    struct remote_interpreter i;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:interpreter", &pid, &runtime))
        return NULL;
    if (!remote_interpreter(pid, runtime, &i))
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *threads = PyList_New(0);
    uint64_t state = i.first;
    for (int n = 0; threads && state && n < 65536; n++) {
        struct remote_thread t;
        if (!remote_thread(pid, state, &t))
            break;
        PyObject *each =
            Py_BuildValue("(KKO)", (unsigned long long)t.tid, (unsigned long long)state,
                          state == i.holder ? Py_True : Py_False);
        if (!each || PyList_Append(threads, each))
            Py_CLEAR(threads);
        Py_XDECREF(each);
        state = t.next;
    }
    return threads
               ? Py_BuildValue("(OOKN)", i.main ? Py_True : Py_False, i.ends ? Py_True : Py_False,
                               (unsigned long long)i.switches, threads)
               : NULL;
}

static PyObject *py_gil(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long runtime;
    struct remote_interpreter i;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:gil", &pid, &runtime))
        return NULL;
    if (!remote_interpreter(pid, runtime, &i))
        return PyErr_SetFromErrno(PyExc_OSError);
    return Py_BuildValue("(KKK)", (unsigned long long)i.holder, (unsigned long long)i.gil,
                         (unsigned long long)i.gil_end);
}

static PyObject *py_withdraw(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long state;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:withdraw", &pid, &state))
        return NULL;
    if (!remote_withdraw(pid, state))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

#define FRAMES_MAX 10000

/* [(code, frame, offset), ...], innermost first; a code 0 is the entry frame of an eval loop. */
static PyObject *py_frames(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long state;
    struct remote_thread t;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:frames", &pid, &state))
        return NULL;
    if (!remote_thread(pid, state, &t))
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *list = PyList_New(0);
    uint64_t at = t.frame;
    for (int n = 0; list && at && n < FRAMES_MAX; n++) {
        struct remote_frame f;
        if (!remote_frame(pid, at, &f))
            break;
        PyObject *each = Py_BuildValue("(KKI)", (unsigned long long)f.code,
                                       (unsigned long long)f.frame, f.offset);
        if (!each || PyList_Append(list, each))
            Py_CLEAR(list);
        Py_XDECREF(each);
        at = f.previous;
    }
    return list;
}

static PyObject *text_of(int pid, const struct remote_text *text)
{
    size_t size = (size_t)text->length * text->kind;
    void *data = malloc(size + 1);
    PyObject *made = NULL;
    if (!data)
        return PyErr_NoMemory();
    if (size && !remote_read(pid, text->address, data, size))
        PyErr_SetFromErrno(PyExc_OSError);
    else
        made = PyUnicode_FromKindAndData((int)text->kind, data, (Py_ssize_t)text->length);
    free(data);
    return made;
}

static PyObject *py_code(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long address;
    struct remote_code code;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:code", &pid, &address))
        return NULL;
    if (!remote_code(pid, address, &code)) {
        errno = errno ? errno : EFAULT;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *name = text_of(pid, &code.qualname), *file = name ? text_of(pid, &code.file) : NULL;
    PyObject *table = file ? PyBytes_FromStringAndSize(NULL, code.table_length) : NULL;
    if (table && code.table_length &&
        !remote_read(pid, code.table, PyBytes_AS_STRING(table), code.table_length)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_CLEAR(table);
    }
    if (table)
        return Py_BuildValue("(NNIN)", name, file, code.first_line, table);
    Py_XDECREF(name);
    Py_XDECREF(file);
    return NULL;
}

#define STRING_MAX 100 /* characters of a value that are shown */

/* [(name, value), ...] of a frame; a value is a text that stands for it. */
static PyObject *py_locals(PyObject *module, PyObject *args)
{
    int pid;
    unsigned long long frame;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:locals", &pid, &frame))
        return NULL;
    struct remote_local *found = malloc(REMOTE_LOCALS_MAX * sizeof *found);
    PyObject *list = found ? PyList_New(0) : PyErr_NoMemory();
    uint32_t n = list ? remote_locals(pid, frame, found, REMOTE_LOCALS_MAX) : 0;
    for (uint32_t i = 0; list && i < n; i++) {
        struct remote_value *v = &found[i].value;
        bool is_cut = v->is_string && v->string.length > STRING_MAX;
        if (is_cut)
            v->string.length = STRING_MAX;
        PyObject *name = text_of(pid, &found[i].name), *value = NULL;
        if (name && v->is_string) {
            PyObject *text = text_of(pid, &v->string);
            value = text ? PyUnicode_FromFormat("%R%s", text, is_cut ? "..." : "") : NULL;
            Py_XDECREF(text);
        } else if (name) {
            value = PyUnicode_DecodeUTF8(v->text, (Py_ssize_t)strlen(v->text), "replace");
        }
        PyObject *each = value ? PyTuple_Pack(2, name, value) : NULL;
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (!each && PyErr_ExceptionMatches(PyExc_OSError)) {
            PyErr_Clear(); /* it is gone by now */
            continue;
        }
        if (!each || PyList_Append(list, each))
            Py_CLEAR(list);
        Py_XDECREF(each);
    }
    free(found);
    return list;
}

static PyObject *py_stop(PyObject *module, PyObject *args)
{
    int tid, error;
    (void)module;
    if (!PyArg_ParseTuple(args, "i:stop", &tid))
        return NULL;
    enum inject_result result;
    Py_BEGIN_ALLOW_THREADS result = thread_stop(tid, &error);
    Py_END_ALLOW_THREADS return Py_BuildValue("(si)", results[result], error);
}

static PyObject *py_release(PyObject *module, PyObject *args)
{
    int tid;
    (void)module;
    if (!PyArg_ParseTuple(args, "i:release", &tid))
        return NULL;
    thread_release(tid);
    Py_RETURN_NONE;
}

struct unwind_object {
    PyObject_HEAD struct remote_unwind *unwind;
};

static PyObject *unwind_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"pid", NULL};
    const char *error = NULL;
    int pid;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i:Unwind", names, &pid))
        return NULL;
    struct remote_unwind *unwind = remote_unwind_new(pid, &error);
    if (!unwind)
        return PyErr_Format(PyExc_RuntimeError, "%s", error ? error : "?");
    struct unwind_object *self =
        (struct unwind_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->unwind = unwind;
    else
        remote_unwind_free(unwind);
    return (PyObject *)self;
}

static void unwind_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    remote_unwind_free(((struct unwind_object *)self)->unwind);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static bool add_frame(const struct native_frame *frame, void *argument)
{
    PyObject *list = argument;
    PyObject *path = frame->path ? PyUnicode_DecodeFSDefault(frame->path) : Py_NewRef(Py_None);
    PyObject *each =
        path ? Py_BuildValue("(KKNK)", (unsigned long long)frame->pc, (unsigned long long)frame->sp,
                             path, (unsigned long long)frame->address)
             : NULL;
    bool added = each && PyList_Append(list, each) == 0;
    Py_XDECREF(each);
    return added && PyList_GET_SIZE(list) < FRAMES_MAX;
}

static PyObject *unwind_frames(PyObject *self, PyObject *args)
{
    int tid;
    if (!PyArg_ParseTuple(args, "i:frames", &tid))
        return NULL;
    PyObject *list = PyList_New(0);
    if (!list)
        return NULL;
    const char *why =
        remote_unwind_thread(((struct unwind_object *)self)->unwind, tid, add_frame, list);
    if (PyErr_Occurred()) {
        Py_DECREF(list);
        return NULL;
    }
    return Py_BuildValue("(Ns)", list, why ? why : "");
}

static PyMethodDef unwind_methods[] = {
    {"frames", unwind_frames, METH_VARARGS, "The native frames of a stopped thread."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot unwind_slots[] = {
    {Py_tp_new, unwind_new},
    {Py_tp_dealloc, unwind_dealloc},
    {Py_tp_methods, unwind_methods},
    {Py_tp_doc, "Unwinds native stacks of one process."},
    {0, NULL},
};

static PyType_Spec unwind_spec = {
    .name = "pyhybrid._attach.Unwind",
    .basicsize = sizeof(struct unwind_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = unwind_slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &unwind_spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return r;
}

static PyMethodDef module_methods[] = {
    {"inject", (PyCFunction)(void (*)(void))py_inject, METH_VARARGS | METH_KEYWORDS,
     "Let a process run a text of Python."},
    {"interpreter", py_interpreter, METH_VARARGS, "What an interpreter's threads are."},
    {"gil", py_gil, METH_VARARGS, "Who has the GIL, and where it is."},
    {"withdraw", py_withdraw, METH_VARARGS, "Take a request of sys.remote_exec's back."},
    {"frames", py_frames, METH_VARARGS, "The Python frames of a thread."},
    {"locals", py_locals, METH_VARARGS, "The variables of a Python frame, as texts."},
    {"code", py_code, METH_VARARGS, "What names a code object."},
    {"stop", py_stop, METH_VARARGS, "Stop a thread."},
    {"release", py_release, METH_VARARGS, "Let a stopped thread go on."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,       .m_name = "_attach",     .m_doc = "Other processes, from outside.",
    .m_methods = module_methods, .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__attach(void);

PyMODINIT_FUNC PyInit__attach(void)
{
    return PyModuleDef_Init(&module_def);
}
