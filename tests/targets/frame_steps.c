/* A Python function instruction by instruction, and what the sampler's two walks make of each: which stacks
 * there are, how often each, and where.
 *
 *     steps_init()             before all; NULL, or what is wrong
 *     steps_run(function)      calls it so; how many stacks found no room
 *     steps_listener()         a function that takes any arguments, and is done at once
 *     steps_write(path)        a line each: how often, the first instructions (offsets from the eval loop's begin,
 *                              by commas), and the frames, outermost first: the function's name, or of a
 *                              pseudo-frame its number (enum pseudo); native frames are left out
 *
 * Links src/pyframes/pyframe.c, src/pyframes/join.c and what they need.  Called with the GIL (ctypes.PyDLL).
 */
#include <Python.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "frame_walk.h"
#include "memread.h"
#include "join.h"
#include "step_through.h"

#define EXPORT __attribute__((visibility("default")))
#define DEPTH 256
#define STACKS 4096
#define PLACES 12

EXPORT const char *steps_init(void);
EXPORT PyObject *steps_listener(void);
EXPORT unsigned steps_run(PyObject *function);
EXPORT int steps_write(const char *path);

struct stack {
    uint64_t hash, count, places[PLACES];
    unsigned n, n_places;
    int64_t words[DEPTH];
};

static struct stack stacks[STACKS];
static unsigned lost;

static struct stack *slot_of(const int64_t *words, unsigned n)
{
    uint64_t hash = 14695981039346656037ull; /* FNV-1a, by words */
    for (unsigned i = 0; i < n; i++)
        hash = (hash ^ (uint64_t)words[i]) * 1099511628211ull;
    for (unsigned i = 0; i < STACKS; i++) {
        struct stack *s = &stacks[(hash + i) % STACKS];
        if (!s->count) {
            s->hash = hash;
            s->n = n;
            memcpy(s->words, words, n * sizeof *words);
        }
        if (s->hash == hash)
            return s;
    }
    return NULL;
}

static void note(const int64_t *words, unsigned n, uint64_t pc)
{
    struct stack *s = slot_of(words, n);
    if (!s) {
        lost++;
        return;
    }
    s->count++;
    for (unsigned i = 0; i < s->n_places; i++)
        if (s->places[i] == pc)
            return;
    if (s->n_places < PLACES)
        s->places[s->n_places++] = pc;
}

/* The joined stack, innermost first, as the handler makes it (walk, handler.c). */
static size_t joined(void *context, uint64_t *out, struct py_chain *chain, uint64_t *pc)
{
    static struct native_frame native[DEPTH];
    static uint64_t python[DEPTH];
    struct unwind_regs regs;
    arch_regs_from_context(&regs, context);
    *pc = regs.pc;
    stack_bounds_update(&unwinder, regs.sp, main_stack_high);
    unwind_refresh(&unwinder);
    chain->in_register = arch_kept_register(context, layout.frame_register);
    pyframe_walk(&unwinder, &regs, &layout, chain);
    unwinder.anchors = chain->anchors;
    unwinder.n_anchors = chain->n_entries;
    unwinder.anchor_rule = &layout.anchor;
    struct join_input in = {.native = native, .chain = chain, .python = python, .layout = &layout};
    in.n_native = unwind_walk(&unwinder, &regs, native, DEPTH, &in.end);
    for (size_t i = 0; i < chain->n_frames; i++) /* the frame's number is its code's id here */
        python[i] =
            chain->frames[i].code ? frame_python(i, 0) : frame_pseudo(PSEUDO_UNKNOWN_PYTHON);
    return join_stack(&in, out, DEPTH);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    static struct py_frame frames[DEPTH];
    static struct py_entry entries[DEPTH];
    static uint64_t anchors[DEPTH], out[DEPTH];
    static int64_t words[DEPTH];
    struct py_chain chain = {.frames = frames,
                             .max_frames = DEPTH,
                             .entries = entries,
                             .anchors = anchors,
                             .max_entries = DEPTH};
    uint64_t pc;
    size_t n = joined(context, out, &chain, &pc);
    unsigned kept = 0;
    while (n--) {
        if (frame_tag(out[n]) == PYH_TAG_PYTHON)
            words[kept++] = (int64_t)frames[frame_code_id(out[n])].code;
        else if (frame_tag(out[n]) == PYH_TAG_PSEUDO)
            words[kept++] = -(int64_t)(out[n] ^ frame_pseudo(0));
    }
    note(words, kept, pc);
}

const char *steps_init(void)
{
    return frame_walk_init();
}

static PyObject *listen(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    (void)self;
    (void)arguments;
    (void)n;
    Py_RETURN_NONE;
}

PyObject *steps_listener(void)
{
    static PyMethodDef method = {"listen", (PyCFunction)(void (*)(void))listen, METH_FASTCALL,
                                 NULL};
    return PyCFunction_New(&method, NULL);
}

/* The code objects must live still. */
static void put_word(FILE *f, int64_t word)
{
    struct py_code_info code;
    if (word < 0)
        fprintf(f, " %ld", (long)-word);
    else if (pyframe_read_code((uint64_t)word, &code, memread) && code.qualname.kind == 1)
        fprintf(f, " %.*s", (int)code.qualname.length, (const char *)code.qualname.address);
    else
        fputs(" ?", f);
}

static void call(void *function)
{
    Py_XDECREF(PyObject_CallNoArgs(function));
}

unsigned steps_run(PyObject *function)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGTRAP, &action, &old);
    step_through(call, function);
    sigaction(SIGTRAP, &old, NULL);
    if (PyErr_Occurred())
        PyErr_Print();
    return lost;
}

int steps_write(const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return -1;
    for (const struct stack *s = stacks; s < stacks + STACKS; s++) {
        if (!s->count)
            continue;
        fprintf(f, "%lu ", s->count);
        for (unsigned i = 0; i < s->n_places; i++)
            fprintf(f, "%s%ld", i ? "," : "", (long)(s->places[i] - layout.eval_entry.start));
        for (unsigned i = 0; i < s->n; i++)
            put_word(f, s->words[i]);
        fputc('\n', f);
    }
    return fclose(f);
}
