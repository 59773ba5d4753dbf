/* Sources: Include/internal/pycore_frame.h, Include/cpython/pystate.h, Python/ceval.c
 * (_PyEval_EvalFrameDefault, _PyThreadState_PopFrame), Include/cpython/unicodeobject.h,
 * Objects/frameobject.c (PyFrame_GetLineNumber), of CPython 3.12 to 3.15. */
#include "pyframe.h"

#include "compiler.h"
#include "launcher.h"
#include "memread.h"
#include "pyframe_version.h"

#define EVAL_SEARCH_MAX 256 /* native frames */
#define CHUNKS_MAX 64       /* data stack chunks looked at for one frame */

/* The loads of one walk: frames lie on the C stack, in the data stack's chunks, or in generator
 * objects.  The first two are proven by bounds; only the thread itself moves them. */

static bool in_stack(const struct unwind *u, uint64_t address, size_t n)
{
    return memread_within(u->stack_low, u->stack_high, address, n) && !(address & 7);
}

static bool in_chunk(struct py_reader *r, uint64_t address)
{
    _PyStackChunk *c = r->chunk;
    for (int i = 0; c && i < CHUNKS_MAX; i++, c = c->previous) {
        if (memread_within((uint64_t)c, (uint64_t)c + c->size, address, FRAME_HEAD)) {
            if (r->chunk != c)
                r->callee = 0;
            r->chunk = c; /* outer frames lie in this one or in older ones */
            return true;
        }
    }
    return false;
}

/* A running generator, which lives as long as it runs.  A stale link (see is_running) may lead elsewhere. */
static bool in_heap(struct py_reader *r, uint64_t address)
{
    uint64_t first = address & ~4095ull, last = (address + FRAME_HEAD - 1) & ~4095ull;
    if (!first || (first != r->page && !memread_probe(first)) ||
        (last != first && !memread_probe(last)))
        return false;
    r->page = last;
    return true;
}

/* The frame at `address`; NULL: it cannot be read. */
static const frame_t *read_frame(struct py_reader *r, uint64_t address)
{
    bool readable = !(address & 7) && (in_stack(r->u, address, FRAME_HEAD) ||
                                       in_chunk(r, address) || in_heap(r, address));
    return readable ? (const frame_t *)address : NULL;
}

/* Is this the frame of a running function: in its generator, or on the data stack below those that
 * it called?  The eval loop may make a frame the current one before it stores its `previous`, so a
 * link can lead to any object, even round in circles. */
NO_ASAN static bool is_running(struct py_reader *r, uint64_t address, const frame_t *f)
{
    if (f->owner == FRAME_OWNED_BY_GENERATOR)
        return (uint64_t)f->previous != address;
    if (f->owner != FRAME_OWNED_BY_THREAD || !in_chunk(r, address) ||
        (r->callee && address >= r->callee))
        return false;
    r->callee = address;
    return true;
}

/* Follows `previous` from `address`.  Entry frames must lie on the C stack, each above the one
 * before it; all else is a stale or half-built link. */
NO_ASAN static void follow(struct py_reader *r, uint64_t address, uint64_t sp,
                           struct py_chain *chain)
{
    uint64_t last_entry = sp, launched_by = launcher_frame();
    chain->state = PY_COMPLETE;
    for (bool at_entry = false; address || !at_entry;) {
        if (!address) { /* a generator that is just resumed, or yields: it is linked to no caller */
            chain->state = PY_BROKEN;
            return;
        }
        if (address == launched_by) {
            chain->state = PY_LAUNCHED;
            return;
        }
        const frame_t *f = read_frame(r, address);
        if (!f) {
            chain->state = PY_BROKEN;
            return;
        }
        uint64_t next = (uint64_t)f->previous;
        at_entry = FRAME_IS_ENTRY(f);
        if (at_entry) {
#if PY_VERSION_HEX >= 0x030f0000
            if (!next && !in_stack(r->u, address, FRAME_HEAD))
                return; /* ts->base_frame, on the heap, ends every chain */
#endif
            if (address < last_entry || !in_stack(r->u, address, FRAME_HEAD)) {
                chain->state = PY_BROKEN;
                return;
            }
            if (chain->n_entries == chain->max_entries) {
                chain->state = PY_TRUNCATED;
                return;
            }
            last_entry = address + 1;
            chain->anchors[chain->n_entries] = address;
            chain->entries[chain->n_entries++].n_frames = (uint32_t)chain->n_frames;
        } else {
            if (!is_running(r, address, f)) {
                chain->state = PY_BROKEN;
                return;
            }
            if (chain->n_frames == chain->max_frames) {
                chain->state = PY_TRUNCATED;
                return;
            }
            uint64_t code = FRAME_CODE(f);
            chain->frames[chain->n_frames++] =
                (struct py_frame){code, address, instruction_offset(code, FRAME_INSTRUCTION(f))};
            if (address == chain->stop_frame && chain->stop_entry >= last_entry &&
                chain->n_entries < chain->max_entries) {
                chain->anchors[chain->n_entries] = chain->stop_entry;
                chain->entries[chain->n_entries++].n_frames = (uint32_t)chain->n_frames;
                chain->state = PY_STOPPED;
                return;
            }
        }
        address = next;
    }
}

/* The CFA of the innermost eval loop on the C stack (`skip_leaf`: not counting the interrupted
 * frame itself), found by unwinding.  0: none within reach. */
static uint64_t find_eval_cfa(struct unwind *u, struct unwind_regs regs,
                              const struct py_layout *layout, bool skip_leaf)
{
    for (int i = 0; i < EVAL_SEARCH_MAX; i++) {
        uint64_t cfa, pc = regs.pc;
        enum cfa_kind kind;
        if (!unwind_step(u, &regs, &cfa, &kind) || kind == CFA_END)
            return 0;
        if (pyframe_is_eval(layout, pc) && (i || !skip_leaf))
            return cfa;
    }
    return 0;
}

#if PY_VERSION_HEX < 0x030d0000

/* 3.12 links frames through a _PyCFrame, a local of the eval loop.  It is published (tstate->cframe)
 * some 25 instructions before its fields are stored, so in the eval loop's prologue the newest one
 * is garbage, perhaps plausible garbage: stale data of an earlier call.  There, use the one of the
 * next eval loop up the C stack, whose place in its native frame is constant. */
#define PROLOGUE_BYTES 256

static bool in_prologue(const struct unwind_regs *regs, const struct py_layout *layout)
{
    return regs->pc - layout->eval_entry.start < PROLOGUE_BYTES;
}

static uint64_t innermost_frame(struct unwind *u, const struct unwind_regs *regs,
                                const struct py_layout *layout, const PyThreadState *ts)
{
    uint64_t cframe = (uint64_t)ts->cframe;
    if (in_prologue(regs, layout)) {
        uint64_t cfa = find_eval_cfa(u, *regs, layout, true);
        cframe = cfa ? cfa - (uint64_t)layout->cframe_to_cfa : 0;
    }
    if (cframe == (uint64_t)&ts->root_cframe || in_stack(u, cframe, sizeof(_PyCFrame)))
        return (uint64_t)((const _PyCFrame *)cframe)->current_frame;
    return 0;
}

/* Is `held` a frame that the current one calls, and which is just being made? */
static bool is_beyond(struct py_reader r, uint64_t held, uint64_t first)
{
    if (!in_chunk(&r, held))
        return false;
    const _PyStackChunk *chunk = r.chunk;
    return in_chunk(&r, first) && (r.chunk != chunk || held > first);
}

/* 3.12 makes a frame the current one some ten instructions before it stores its `previous`: until then that link
 * is stale, often plausible, and leads past a caller.  The register in which the eval loop keeps its frame has the
 * caller still, or again, where a frame ends.  So what is `held` there is to be followed; 0: `first` is. */
NO_ASAN static uint64_t held_instead(uint64_t held, uint64_t first, struct py_reader r,
                                     const struct unwind_regs *regs, const struct py_layout *layout)
{
    if (!held || held == first || !pyframe_is_eval(layout, regs->pc) || in_prologue(regs, layout))
        return 0;
    struct py_reader other = r;
    const frame_t *f = read_frame(&other, first);
    bool is_linked = f && (uint64_t)f->previous == held;
    return is_linked || is_beyond(r, held, first) ? 0 : held;
}

#else

static uint64_t innermost_frame(struct unwind *u, const struct unwind_regs *regs,
                                const struct py_layout *layout, const PyThreadState *ts)
{
    (void)u;
    (void)regs;
    (void)layout;
    return (uint64_t)ts->current_frame;
}

static uint64_t held_instead(uint64_t held, uint64_t first, struct py_reader r,
                             const struct unwind_regs *regs, const struct py_layout *layout)
{
    (void)held;
    (void)first;
    (void)r;
    (void)regs;
    (void)layout;
    return 0; /* linked first, in all builds seen (tests/system/sampler/test_frame_steps.py) */
}

#endif

/* No entry frame was met.  The current frame itself may be gone: RETURN_GENERATOR pops it, and perhaps unmaps its
 * memory, before it makes its caller the current one.  Or it is there, but not yet linked to its caller, or no longer.
 * This eval loop's other frames are lost; those further out hang on its entry frame. */
static void follow_from_entry(struct unwind *u, const struct unwind_regs *regs,
                              const struct py_layout *layout, struct py_reader r,
                              struct py_chain *chain)
{
    uint64_t cfa = layout->anchor.cfa ? find_eval_cfa(u, *regs, layout, false) : 0;
    if (!cfa)
        return;
    chain->n_frames =
        chain->n_frames && chain->max_frames > 1; /* the current one, if it is there */
    chain->frames[chain->n_frames++] = (struct py_frame){0};
    follow(&r, cfa - (uint64_t)layout->anchor.cfa, regs->sp, chain);
}

void pyframe_walk(struct unwind *u, const struct unwind_regs *regs, const struct py_layout *layout,
                  struct py_chain *chain)
{
    chain->n_frames = chain->n_entries = 0;
    chain->state = PY_NONE;
    /* Not the current thread state: that is NULL while the GIL is released. */
    const PyThreadState *ts = PyGILState_GetThisThreadState();
    if (!ts)
        return;
    if (ts->interp != PyInterpreterState_Main()) {
        chain->state = PY_OTHER;
        return;
    }
    uint64_t first = innermost_frame(u, regs, layout, ts);
    if (!first)
        return;
    struct py_reader fresh = {.u = u, .chunk = ts->datastack_chunk}, r = fresh;
    uint64_t held = held_instead(chain->in_register, first, fresh, regs, layout);
    if (held) {
        follow(&r, held, regs->sp, chain);
        if (chain->n_entries)
            return;
        chain->n_frames = 0;
        r = fresh;
    }
    follow(&r, first, regs->sp, chain);
    if (chain->state == PY_BROKEN && !chain->n_entries)
        follow_from_entry(u, regs, layout, fresh, chain);
}

void pyframe_read_begin(struct py_reader *r, const struct unwind *u)
{
    const PyThreadState *ts = PyGILState_GetThisThreadState();
    *r = (struct py_reader){.u = u, .chunk = ts ? ts->datastack_chunk : NULL};
}

NO_ASAN bool pyframe_read(struct py_reader *r, uint64_t address, struct py_frame *out)
{
    const frame_t *f = read_frame(r, address);
    if (!f)
        return false;
    uint64_t code = FRAME_CODE(f);
    *out = (struct py_frame){code, address, instruction_offset(code, FRAME_INSTRUCTION(f))};
    return true;
}

/* Of an object that may be gone: another one in its place can look like a string of any kind. */
static bool read_text(uint64_t address, struct py_code_text *text, memread_way *read)
{
    PyCompactUnicodeObject s;
    if (!read(&s._base, address, sizeof s._base) || s._base.ob_base.ob_type != &PyUnicode_Type ||
        !s._base.state.compact || s._base.length < 0)
        return false;
    unsigned kind = s._base.state.kind;
    if (kind != PyUnicode_1BYTE_KIND && kind != PyUnicode_2BYTE_KIND &&
        kind != PyUnicode_4BYTE_KIND)
        return false;
    text->length = s._base.length > 4096 ? 4096 : (uint32_t)s._base.length;
    text->kind = kind;
    text->address = address + (s._base.state.ascii ? sizeof s._base : sizeof s);
    return true;
}

bool pyframe_read_code(uint64_t address, struct py_code_info *info, memread_way *read)
{
    PyCodeObject code;
    PyBytesObject table;
    if (!read(&code, address, offsetof(PyCodeObject, co_code_adaptive)) ||
        code.ob_base.ob_base.ob_type != &PyCode_Type)
        return false;
    *info = (struct py_code_info){.first_line = (uint32_t)code.co_firstlineno,
                                  .first_traceable = (uint32_t)code._co_firsttraceable};
    if (read(&table, (uint64_t)code.co_linetable, offsetof(PyBytesObject, ob_sval)) &&
        table.ob_base.ob_base.ob_type == &PyBytes_Type && table.ob_base.ob_size > 0) {
        info->line_table = (uint64_t)code.co_linetable + offsetof(PyBytesObject, ob_sval);
        info->line_table_length = (uint32_t)table.ob_base.ob_size;
    }
    return read_text((uint64_t)code.co_qualname, &info->qualname, read) &&
           read_text((uint64_t)code.co_filename, &info->file_name, read);
}
