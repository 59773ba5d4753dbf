/* pyframe.h - the Python frames of the calling thread, read without the GIL and without trust.
 *
 * CPython keeps an "entry frame" in the C stack frame of each eval loop; it ends the run of
 * Python frames that this eval loop executes (Python-to-Python calls do not use the C stack).  So
 * an entry frame's address shows which native frame the run before it belongs to, with no name
 * and no symbol (ARCHITECTURE.md, "The join").
 *
 * All that differs between CPython versions stands in pyframe_version.h, and marked in pyframe.c.
 *
 * Context: pyframe_walk is async-signal-safe; the others need the GIL.
 */
#ifndef PYH_PYFRAME_H
#define PYH_PYFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memread.h"
#include "unwind.h"

struct py_frame {
    uint64_t code;   /* PyCodeObject *; 0: frames that could not be read */
    uint64_t frame;  /* its own address */
    uint32_t offset; /* of the instruction, in code units; 0 before the first */
};

struct py_entry {
    uint32_t n_frames; /* frames before this entry frame: the first of the next eval loop's */
};

enum py_chain_state {
    PY_NONE,      /* no thread state, or no frame */
    PY_COMPLETE,  /* the chain's end was reached */
    PY_TRUNCATED, /* too many frames */
    PY_BROKEN,    /* a link could not be read or is implausible: what comes before it is good */
    PY_OTHER,     /* the frames of another interpreter than the main one */
    PY_STOPPED,   /* `stop_frame` was met, the last one of `frames` */
    PY_LAUNCHED, /* the launcher's frame was met: the program's outermost one is the last of `frames` */
};

struct py_chain {
    struct py_frame *frames; /* innermost first */
    size_t max_frames, n_frames;
    struct py_entry *entries;
    uint64_t *anchors; /* the entry frames' addresses, ascending */
    size_t max_entries, n_entries;
    enum py_chain_state state;
    uint64_t in_register; /* what the interrupted thread has in py_layout's frame_register */
    /* The walk may end here: at a frame, and the entry frame of its eval loop.  0: at the chain's end. */
    uint64_t stop_frame, stop_entry;
};

struct code_range {
    uint64_t start, end;
};

/* What is constant for this interpreter build; measured by pyframe_calibrate. */
struct py_layout {
    struct anchor_rule anchor;
    /* The eval loop's code: where calls are made from, and where it begins.  Compilers may split it
     * (Debian's 3.14); else both are the whole. */
    struct code_range eval, eval_entry;
    /* The interpreter of tail calls (3.14+, clang): the eval loop only calls the first instruction's handler, which
     * jumps to the next one's.  So the frame that an eval loop calls is part of it.  It is so small that compilers
     * inline it, so the CFA of its frame lies at another distance from the entry frame in each copy: anchor.cfa is 0. */
    bool by_handlers;
    int64_t cframe_to_cfa; /* CPython 3.12: from its _PyCFrame to the eval loop's CFA */
    /* CPython 3.12: the register in which the eval loop keeps the frame that it runs, by its DWARF number.  0: in
     * none that it keeps over calls. */
    int frame_register;
};

/* What an eval loop has on the stack at most, where its CFA is at no constant distance. */
#define PYFRAME_EVAL_MAX 65536

/* Makes walks of `u` complete with the eval loop that has the entry frame at `entry`; 0: at the thread's root. */
static inline void pyframe_stop_at(const struct py_layout *layout, struct unwind *u, uint64_t entry)
{
    uint64_t cfa = (uint64_t)layout->anchor.cfa;
    u->stop_cfa = entry ? entry + (cfa ? cfa : 8) : 0;
    u->stop_slack = entry && !cfa ? PYFRAME_EVAL_MAX : 0;
}

static inline bool pyframe_is_eval(const struct py_layout *layout, uint64_t pc)
{
    return (pc >= layout->eval.start && pc < layout->eval.end) ||
           (pc >= layout->eval_entry.start && pc < layout->eval_entry.end);
}

/* Checks that the interpreter is the one we were built for, and measures `layout` by walking our
 * own stack: must be called from Python code.  Returns NULL, or what is wrong (static text). */
const char *pyframe_calibrate(struct unwind *u, struct py_layout *layout);

/* Walks the frames of the calling thread, which was interrupted with `regs`. */
void pyframe_walk(struct unwind *u, const struct unwind_regs *regs, const struct py_layout *layout,
                  struct py_chain *chain);

/* Reads frames of the calling thread that are known otherwise, innermost first: callers of one that runs. */
struct py_reader {
    const struct unwind *u; /* the stack's bounds */
    void *chunk;            /* of the data stack: outer frames lie in this one or in older ones */
    uint64_t callee; /* the last frame found in `chunk`: outer ones lie below it.  0: none yet */
    uint64_t page;   /* one page of the heap known to be readable */
};

/* Both are async-signal-safe. */
void pyframe_read_begin(struct py_reader *r, const struct unwind *u);

/* Reads what the frame at `address` runs, and where it is.  Returns false if it cannot be read. */
bool pyframe_read(struct py_reader *r, uint64_t address, struct py_frame *out);

/* One code object as the sampler keeps it.  Strings are as CPython stores them: `kind` bytes per
 * character (1: Latin-1). */
struct py_code_text {
    uint32_t length; /* characters */
    uint32_t kind;
    uint64_t address;
};

struct py_code_info {
    uint32_t first_line;
    uint32_t first_traceable;
    struct py_code_text qualname, file_name;
    uint64_t line_table;
    uint32_t line_table_length;
};

/* Reads what names the code object at `code`.  Returns false if it is none. */
bool pyframe_read_code(uint64_t code, struct py_code_info *info, memread_way *read);

#endif
