#include "pyframe.h"
#include "pyframe_version.h"

#include "loader_lock.h"

/* The offsets that CPython publishes for profilers (3.13+), against those we were compiled with. */
static bool offsets_agree(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    const struct _Py_DebugOffsets *o = &_PyRuntime.debug_offsets;
    return o->interpreter_frame.previous == offsetof(frame_t, previous) &&
           o->interpreter_frame.executable == offsetof(frame_t, f_executable) &&
           o->interpreter_frame.instr_ptr == offsetof(frame_t, instr_ptr) &&
           o->interpreter_frame.owner == offsetof(frame_t, owner) &&
           o->interpreter_frame.localsplus == offsetof(frame_t, localsplus) &&
           o->thread_state.current_frame == offsetof(PyThreadState, current_frame) &&
           o->code_object.co_code_adaptive == offsetof(PyCodeObject, co_code_adaptive);
#else
    return true;
#endif
}

/* Is `found` the code of the caller's frame, as CPython itself has it? */
static bool is_current_code(uint64_t found)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame)
        return false;
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code);
    return (uint64_t)code == found;
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
    if (!offsets_agree())
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
        return "no Python frame was found on the C stack";
    if (!is_current_code(frames[0].code))
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
