#include "pyframe.h"
#include "pyframe_version.h"

#include <opcode.h>

#include "loader_lock.h"

/* --- is what we were compiled with what this interpreter has? ------------------------------------------
 *
 * A wheel meets patch releases that were not there when it was built.  So whatever samples follow without a look is
 * compared with what the interpreter itself publishes (3.13+) or answers, read with a guard meanwhile. */

enum { COMPARED_MAX = 8 };  /* frames */
enum { CFRAMES_MAX = 256 }; /* eval loops of 3.12 */

/* The offsets that CPython publishes for profilers (3.13+), against those we were compiled with. */
static bool offsets_agree(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    const struct _Py_DebugOffsets *o = &_PyRuntime.debug_offsets;
    return !memcmp(o->cookie, _Py_Debug_Cookie, sizeof o->cookie) &&
           o->version >> 16 == PY_VERSION_HEX >> 16 && !o->free_threaded &&
           o->interpreter_frame.previous == offsetof(frame_t, previous) &&
           o->interpreter_frame.executable == offsetof(frame_t, f_executable) &&
           o->interpreter_frame.instr_ptr == offsetof(frame_t, instr_ptr) &&
           o->interpreter_frame.owner == offsetof(frame_t, owner) &&
           o->interpreter_frame.localsplus == offsetof(frame_t, localsplus) &&
           o->thread_state.interp == offsetof(PyThreadState, interp) &&
           o->thread_state.current_frame == offsetof(PyThreadState, current_frame) &&
           o->thread_state.datastack_chunk == offsetof(PyThreadState, datastack_chunk) &&
           o->interpreter_state.ceval_gil == offsetof(PyInterpreterState, ceval.gil) &&
           o->interpreter_state.gil_runtime_state_locked ==
               offsetof(PyInterpreterState, _gil.locked) &&
           o->interpreter_state.gil_runtime_state_holder ==
               offsetof(PyInterpreterState, _gil.last_holder) &&
           o->code_object.qualname == offsetof(PyCodeObject, co_qualname) &&
           o->code_object.filename == offsetof(PyCodeObject, co_filename) &&
           o->code_object.linetable == offsetof(PyCodeObject, co_linetable) &&
           o->code_object.firstlineno == offsetof(PyCodeObject, co_firstlineno) &&
           o->code_object.co_code_adaptive == offsetof(PyCodeObject, co_code_adaptive);
#else
    return true;
#endif
}

/* Of this thread, which has the GIL: its interpreter, that GIL, its chunks of the data stack. */
static bool state_agrees(void)
{
    PyThreadState *ts = PyThreadState_Get();
    struct _gil_runtime_state gil;
    uint64_t address;
    bool is_right = true;
    if (ts->py_recursion_limit != Py_GetRecursionLimit() || ts->py_recursion_remaining <= 0 ||
        ts->py_recursion_remaining > ts->py_recursion_limit)
        return false;
#if PY_VERSION_HEX < 0x030e0000
    if (ts->c_recursion_remaining <= 0)
        return false;
#endif
    if (ts->interp != PyThreadState_GetInterpreter(ts) ||
        !memread(&address, (uint64_t)&ts->interp->ceval.gil, sizeof address) ||
        !memread(&gil, address, sizeof gil) || !GIL_IS_LOCKED(&gil) ||
        GIL_HOLDER(&gil) != (uint64_t)ts)
        return false;
#if PY_VERSION_HEX < 0x030d0000
    /* What the eval loops have on the stack is linked, and ends with the thread's own. */
    _PyCFrame cframe = {.previous = ts->cframe};
    for (int i = 0; i < CFRAMES_MAX && cframe.previous; i++) {
        address = (uint64_t)cframe.previous;
        if (!memread(&cframe, address, sizeof cframe))
            return false;
    }
    if (!cframe.previous && address != (uint64_t)&ts->root_cframe)
        return false;
    address = (uint64_t)ts->interp->ceval.gil;
    /* Once released it is not locked, or another's, whose name may come a moment later. */
    is_right = false;
    for (int i = 0; i < 8 && !is_right; i++) {
        PyEval_SaveThread();
        is_right = memread(&gil, address, sizeof gil) &&
                   (!GIL_IS_LOCKED(&gil) || GIL_HOLDER(&gil) != (uint64_t)ts);
        PyEval_RestoreThread(ts);
    }
#endif
    _PyStackChunk chunk;
    for (address = (uint64_t)ts->datastack_chunk; address; address = (uint64_t)chunk.previous)
        if (!memread(&chunk, address, sizeof chunk) || chunk.size % 4096 || !chunk.size ||
            chunk.size > 1ull << 40 || chunk.top > chunk.size / sizeof(PyObject *))
            return false;
    return is_right;
}

/* Is the frame's first local variable where CPython says?  Where it has none, or a cell, there is nothing to compare. */
static bool local_agrees(PyFrameObject *frame, PyCodeObject *code, uint64_t address)
{
    PyObject *names = PyObject_GetAttrString((PyObject *)code, "co_varnames");
    PyObject *cells = PyObject_GetAttrString((PyObject *)code, "co_cellvars");
    PyObject *name = names && PyTuple_Check(names) ? PyTuple_GetItem(names, 0) : NULL;
    bool is_plain = name && cells && !PySequence_Contains(cells, name);
    PyObject *value = is_plain ? PyFrame_GetVar(frame, name) : NULL;
    uint64_t held;
    bool agrees = memread(&held, address + offsetof(frame_t, localsplus), sizeof held) &&
                  (!value || (held & ~7ull) == (uint64_t)value); /* 3.14+: tagged */
    PyErr_Clear();
    Py_XDECREF(value);
    Py_XDECREF(cells);
    Py_XDECREF(names);
    return agrees;
}

/* Does what we read of a code object name it as CPython does? */
static bool code_agrees(PyCodeObject *code)
{
    struct py_code_info info;
    if (!pyframe_read_code((uint64_t)code, &info, memread))
        return false;
    PyObject *name = PyObject_GetAttrString((PyObject *)code, "co_qualname");
    PyObject *short_name = PyObject_GetAttrString((PyObject *)code, "co_name");
    PyObject *file = PyObject_GetAttrString((PyObject *)code, "co_filename");
    PyObject *line = PyObject_GetAttrString((PyObject *)code, "co_firstlineno");
    PyObject *table = PyObject_GetAttrString((PyObject *)code, "co_linetable");
    bool agrees = name && short_name && file && line && table;
    if (agrees) {
        const struct py_code_text *texts[] = {&info.qualname, &info.file_name};
        PyObject *of[] = {name, file};
        for (int i = 0; i < 2 && agrees; i++) {
            Py_ssize_t n;
            const char *text = PyUnicode_AsUTF8AndSize(of[i], &n);
            if (!text || texts[i]->kind != 1 || n != texts[i]->length)
                continue; /* not ASCII, or cut */
            agrees = !memcmp(text, (const char *)texts[i]->address, (size_t)n);
        }
        agrees = agrees && code->co_qualname == name && code->co_name == short_name &&
                 code->co_filename == file && code->co_linetable == table &&
                 PyLong_AsLong(line) == (long)info.first_line &&
                 info.first_traceable < (uint64_t)Py_SIZE(code);
    }
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(short_name);
    Py_XDECREF(file);
    Py_XDECREF(line);
    Py_XDECREF(table);
    return agrees;
}

/* Does a code object have what it was made of where we read it?  One made for this, of numbers that differ; it never
 * runs.  (Which instruction is the first that is traced, nothing answers.) */
static bool made_code_agrees(void)
{
    static const unsigned char instructions[] = {NOP,    0, NOP, 0, NOP,          0,
                                                 RESUME, 0, NOP, 0, RETURN_VALUE, 0};
    enum { ARGUMENTS = 2, KEYWORDS = 1, LOCALS = 5, STACK = 7, TRACEABLE = 3, LINE = 4321 };
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)instructions, sizeof instructions);
    PyObject *empty = PyTuple_New(0), *locals = Py_BuildValue("(sssss)", "a", "b", "c", "d", "e");
    PyObject *file = PyUnicode_FromString("<layout>"), *name = PyUnicode_FromString("name");
    PyObject *qualname = PyUnicode_FromString("of.name");
    PyCodeObject *code = NULL;
    if (bytes && empty && locals && file && name && qualname)
        code = PyUnstable_Code_New(ARGUMENTS, KEYWORDS, LOCALS, STACK, CO_OPTIMIZED | CO_NEWLOCALS,
                                   bytes, empty, empty, locals, empty, empty, file, name, qualname,
                                   LINE, bytes, bytes);
    PyObject *flags = code ? PyObject_GetAttrString((PyObject *)code, "co_flags") : NULL;
    bool agrees = flags && code_agrees(code) && code->_co_firsttraceable == TRACEABLE &&
                  code->co_argcount == ARGUMENTS && code->co_kwonlyargcount == KEYWORDS &&
                  code->co_nlocalsplus == LOCALS && code->co_stacksize == STACK &&
                  code->co_firstlineno == LINE && PyLong_AsLong(flags) == code->co_flags;
    PyErr_Clear();
    PyObject *made[] = {bytes, empty, locals, file, name, qualname, (PyObject *)code, flags};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        Py_XDECREF(made[i]);
    return agrees;
}

/* Are the frames found those of CPython itself, each where it says that it is? */
static bool frames_agree(const struct py_chain *chain)
{
    PyFrameObject *frame = PyEval_GetFrame();
    bool agree = frame != NULL;
    Py_XINCREF(frame);
    for (size_t i = 0; i < chain->n_frames && i < COMPARED_MAX && agree; i++) {
        if (!frame)
            return false;
        const struct py_frame *f = &chain->frames[i];
        PyCodeObject *code = PyFrame_GetCode(frame);
        int last = PyFrame_GetLasti(frame);
        PyObject *globals = PyFrame_GetGlobals(frame);
        uint64_t held = 0;
        agree = (uint64_t)code == f->code && (uint32_t)(last < 0 ? 0 : last / 2) == f->offset &&
                memread(&held, f->frame + offsetof(frame_t, f_globals), sizeof held) &&
                held == (uint64_t)globals && code_agrees(code) &&
                (i || local_agrees(frame, code, f->frame));
        Py_XDECREF(globals);
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return agree;
}

#if PY_VERSION_HEX < 0x030d0000

/* libgcc's unwinder restores all the registers that functions keep, ours those alone that it needs itself.  From the
 * Itanium C++ ABI: Exception Handling, 1.3 to 1.5; its header has the name of ours. */
struct _Unwind_Context;
uintptr_t _Unwind_GetCFA(struct _Unwind_Context *context);
uintptr_t _Unwind_GetGR(struct _Unwind_Context *context, int number);
int _Unwind_Backtrace(int (*look)(struct _Unwind_Context *, void *), void *argument);

struct register_search {
    uint64_t value, sp; /* at the call that is to be looked into */
    int found;
};

static int look_into(struct _Unwind_Context *context, void *argument)
{
    static const int kept[] = ARCH_KEPT_REGISTERS;
    struct register_search *search = argument;
    if (_Unwind_GetCFA(context) != search->sp)
        return 0; /* _URC_NO_REASON: go on */
    for (size_t i = 0; i < sizeof kept / sizeof *kept && !search->found; i++)
        if (_Unwind_GetGR(context, kept[i]) == search->value)
            search->found = kept[i];
    return 5; /* _URC_END_OF_STACK */
}

/* The register that has `value` in the function whose stack pointer is `sp`; 0: none. */
static int register_of(uint64_t value, uint64_t sp)
{
    struct register_search search = {.value = value, .sp = sp};
    PyThreadState *state = PyEval_SaveThread();
    loader_keep_forks_out();
    _Unwind_Backtrace(look_into, &search);
    loader_let_forks_in();
    PyEval_RestoreThread(state);
    return search.found;
}

#endif

/* A loop over all instructions takes tens of kilobytes; a function that calls the first one's handler, some hundred
 * bytes. */
#define LOOP_BYTES_MIN 8192

static const char wrong_build[] =
    "this CPython differs from the one that pyhybrid was built for: build it again";

const char *pyframe_calibrate(struct unwind *u, struct py_layout *layout)
{
    if (!offsets_agree() || !state_agrees() || !made_code_agrees())
        return wrong_build;
    struct py_frame frames[64];
    struct py_entry entries[64];
    uint64_t anchors[64];
    struct py_chain chain = {.frames = frames,
                             .max_frames = 64,
                             .entries = entries,
                             .anchors = anchors,
                             .max_entries = 64};
    ucontext_t here;
    struct unwind_regs regs;
    getcontext(&here);
    arch_regs_from_context(&regs, &here);
    memset(layout, 0, sizeof *layout);
    pyframe_walk(u, &regs, layout, &chain);
    if (!chain.n_entries || !chain.n_frames)
        return "no Python frame was found on the C stack: this CPython may differ from the one "
               "that pyhybrid was built for";
    if (!frames_agree(&chain))
        return wrong_build;
    for (;;) {
        uint64_t pc = regs.pc, low = regs.sp, cfa;
        enum cfa_kind kind;
        if (!unwind_step(u, &regs, &cfa, &kind) || kind == CFA_END)
            return "the interpreter's C stack cannot be unwound";
        if (anchors[0] < low || anchors[0] >= cfa)
            continue;
        layout->anchor.cfa = (int64_t)(cfa - anchors[0]);
        cfi_find(pc, &layout->anchor.saved);
#if PY_VERSION_HEX < 0x030d0000
        layout->cframe_to_cfa = (int64_t)(cfa - (uint64_t)PyThreadState_Get()->cframe);
        layout->frame_register = register_of(frames[0].frame, low);
#endif
        if (!cfi_function(pc, &layout->eval.start, &layout->eval.end) ||
            !cfi_function((uint64_t)_PyEval_EvalFrameDefault, &layout->eval_entry.start,
                          &layout->eval_entry.end))
            return "the eval loop has no unwind information";
        if (layout->eval.end - layout->eval.start < LOOP_BYTES_MIN) {
            layout->by_handlers = true;
            layout->anchor.cfa = 0;
        }
        return NULL;
    }
}
