/* Python frames and code objects that are none: what the walk makes of links and of a register that hold anything, and
 * what is taken for names.
 *
 *     garbage_init()                      before all; NULL, or what is wrong
 *     garbage_walk(seed, rounds)          walks that often; how many walks found an end that is there
 *     garbage_names(code, seed, rounds)   a code object's names, with another object in the place of one; how often
 *                                         they were taken
 *
 * Links the files of frame_steps.c.  Called with the GIL (ctypes.PyDLL).
 */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include <stdlib.h>
#include <sys/mman.h>

#include "frame_walk.h"
#include "records.h"

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096ul
#define FRAMES 32
#define DEPTH 64

EXPORT const char *garbage_init(void);
EXPORT unsigned garbage_walk(unsigned seed, unsigned rounds);
EXPORT unsigned garbage_names(PyCodeObject *code, unsigned seed, unsigned rounds);

static unsigned char *page; /* one that can be read, between two that cannot */
static unsigned random_state;

static unsigned below(unsigned n)
{
    random_state = random_state * 1103515245u + 12345u;
    return (random_state >> 8) % n;
}

static frame_t *fake(unsigned i)
{
    return (frame_t *)(page + i * (PAGE / FRAMES));
}

/* Where a frame may be said to be: rather near the ends of what can be read, and of all addresses. */
static uint64_t anywhere(const PyThreadState *ts)
{
    const _PyStackChunk *chunk = ts->datastack_chunk;
    uint64_t near = 8 * (uint64_t)below(24) - 96, odd = below(20) ? 0 : below(8);
    uint64_t ends[] = {0,
                       (uint64_t)page,
                       (uint64_t)page + PAGE,
                       (uint64_t)chunk,
                       (uint64_t)chunk + chunk->size,
                       unwinder.stack_low,
                       unwinder.stack_high,
                       (uint64_t)__builtin_frame_address(0),
                       (uint64_t)ts,
                       (uint64_t)Py_None,
                       1ull << 47,
                       1ull << 63};
    if (below(2))
        return (uint64_t)fake(below(FRAMES));
    return ends[below(sizeof ends / sizeof *ends)] + near + odd;
}

static frame_t **current(PyThreadState *ts)
{
#if PY_VERSION_HEX >= 0x030d0000
    return &ts->current_frame;
#else
    return &ts->cframe->current_frame;
#endif
}

static void fill(const PyThreadState *ts, const frame_t *real)
{
    static const char owners[] = {FRAME_OWNED_BY_THREAD, FRAME_OWNED_BY_GENERATOR, OWNED_BY_EVAL};
    for (unsigned i = 0; i < FRAMES; i++) {
        frame_t *f = fake(i);
        *f = *real;
        f->owner = below(8) ? owners[below(sizeof owners)] : (char)below(256);
        f->previous = below(16) ? (frame_t *)anywhere(ts) : (frame_t *)real;
    }
}

/* In the eval loop, past its prologue, as far as the walk can tell. */
static struct unwind_regs in_eval(void)
{
    struct unwind_regs regs;
    arch_regs_here(&regs);
    stack_bounds_update(&unwinder, regs.sp, main_stack_high);
    unwind_refresh(&unwinder);
    regs.pc = layout.eval_entry.start + (layout.eval_entry.end - layout.eval_entry.start) / 2;
    return regs;
}

const char *garbage_init(void)
{
    unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE))
        return "no memory";
    page = pages + PAGE;
    return sizeof(frame_t) <= PAGE / FRAMES ? frame_walk_init() : "frames have grown";
}

unsigned garbage_walk(unsigned seed, unsigned rounds)
{
    static struct py_frame frames[DEPTH];
    static struct py_entry entries[DEPTH];
    static uint64_t anchors[DEPTH];
    struct unwind_regs regs = in_eval();
    PyThreadState *ts = PyThreadState_Get();
    frame_t *real = *current(ts);
    unsigned n_complete = 0;
    random_state = seed;
    for (unsigned i = 0; i < rounds; i++) {
        struct py_chain chain = {.frames = frames,
                                 .max_frames = DEPTH,
                                 .entries = entries,
                                 .anchors = anchors,
                                 .max_entries = DEPTH,
                                 .in_register = anywhere(ts)};
        fill(ts, real);
        *current(ts) = below(4) ? (frame_t *)anywhere(ts) : real;
        pyframe_walk(&unwinder, &regs, &layout, &chain);
        *current(ts) = real;
        if (chain.n_frames > DEPTH || chain.n_entries > DEPTH)
            abort();
        for (size_t n = 0; n < chain.n_entries; n++)
            if (anchors[n] < regs.sp || anchors[n] >= main_stack_high ||
                (n && anchors[n] <= anchors[n - 1]))
                abort();
        n_complete += chain.state == PY_COMPLETE && chain.n_entries;
    }
    return n_complete;
}

static bool is_kind(uint32_t kind)
{
    return kind == PyUnicode_1BYTE_KIND || kind == PyUnicode_2BYTE_KIND ||
           kind == PyUnicode_4BYTE_KIND;
}

unsigned garbage_names(PyCodeObject *code, unsigned seed, unsigned rounds)
{
    static uint64_t buffer[CODE_RECORD_MAX / 8 + 1];
    struct code_record *record = (struct code_record *)buffer;
    PyCodeObject *fake_code = (PyCodeObject *)page;
    PyCompactUnicodeObject *text = (PyCompactUnicodeObject *)(page + PAGE / 2);
    unsigned n_taken = 0;
    random_state = seed;
    for (unsigned i = 0; i < rounds; i++) {
        memcpy(fake_code, code, offsetof(PyCodeObject, co_code_adaptive));
        memcpy(text, code->co_qualname, sizeof *text);
        *(below(2) ? &fake_code->co_qualname : &fake_code->co_filename) = (PyObject *)text;
        unsigned char *state = (unsigned char *)&text->_base.state;
        for (size_t n = 0; n < sizeof text->_base.state; n++)
            state[n] = (unsigned char)below(256);
        if (!below(4))
            text->_base.length = (Py_ssize_t)below(1u << 16) - (1 << 15);
        bool is_text = below(4);
        if (!is_text)
            text->_base.ob_base.ob_type = &PyTuple_Type;
        if (!code_record_fill(record, (uint64_t)fake_code, memread))
            continue;
        if (!is_text || text->_base.length < 0 || !is_kind(record->qualname_kind) ||
            !is_kind(record->file_name_kind))
            abort();
        n_taken++;
    }
    return n_taken;
}
