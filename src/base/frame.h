/* frame.h - what one frame of a stack is, as one 64-bit word.
 *
 * Addresses travel, names wait: a word identifies a frame without naming it.  There are two
 * dialects of the same word:
 *
 *   raw        written by the signal handler: a native frame is an absolute address, a Python
 *              frame is the number of a code object (codes.h);
 *   canonical  written by the drain thread into the spool: a native frame is (module, offset),
 *              a Python frame is (index of a CODE record, offset).
 *
 *   bits 63..61  tag
 *   NATIVE       raw:       47..0 address
 *                canonical: 60..48 module id (0: in no module), 47..0 address - module base
 *   PYTHON       raw:       60..24 number, 23..0 instruction offset
 *                canonical: 55..24 code index, 23..0 instruction offset
 *   PSEUDO       31..8 frame_blocked: a thread | 7..0 enum pseudo
 *   REGION       31..0 number of a named region (spool.h, SPOOL_REGION), 32 an object's (instance_table.h), 33 work that is
 *                done later for it (running_backward.h)
 *   C_CALL       as NATIVE: the start of a C function that a Python function called, by the events;
 *                in the exact half's trees only
 *   LINE         31..0 line number; only below a Python node of the exact half (call_tree.h)
 *   FUNCTION     raw, in the exact half's trees: 60..24 id of the code object that was called last there, 23 is it
 *                one of ours, which has no figures, 22 are its single calls kept, 21 are they watched, 20 are those of
 *                the program that it calls watched, too (watch_list.c), 19..0 the function's number
 *   KERNEL       47..0 of an address of the kernel, whose upper bits are ones
 *
 * Every native address and every one of the kernel lies inside the instruction it stands for: the interrupted one for
 * the innermost frame and for frames that a signal interrupted, the calling one (return address - 1) for all others but
 * a signal's trampoline, which nobody calls: its first.  An instruction offset counts 16-bit code units from
 * co_code_adaptive.
 *
 * Context: constants and arithmetic only, usable everywhere.
 */
#ifndef PYH_FRAME_H
#define PYH_FRAME_H

#include <stdint.h>

#define PYH_TAG_SHIFT 61
#define PYH_TAG_NATIVE 0ull
#define PYH_TAG_PYTHON 1ull
#define PYH_TAG_PSEUDO 2ull
#define PYH_TAG_REGION 3ull
#define PYH_TAG_C_CALL 4ull
#define PYH_TAG_LINE 5ull
#define PYH_TAG_KERNEL 6ull
#define PYH_TAG_FUNCTION 7ull

#define PYH_ADDR_BITS 48
#define PYH_ADDR_MASK ((1ull << PYH_ADDR_BITS) - 1)
#define PYH_MODULE_MAX ((1u << 13) - 1)
#define PYH_OFFSET_BITS 24
#define PYH_OFFSET_MASK ((1ull << PYH_OFFSET_BITS) - 1)
#define PYH_OFFSET_UNKNOWN PYH_OFFSET_MASK /* the function is known, where it is in it is not */
#define PYH_CODE_ID_BITS 37

/* Pseudo-frames: the one table.  Their names stand in pyhybrid/base/pseudo_frames.py. */
enum pseudo {
    PSEUDO_TRUNCATED = 1,     /* the walk ended before the thread's root */
    PSEUDO_GAP,               /* frames are missing here: code without unwind information */
    PSEUDO_BRIDGED,           /* such code was passed, and the way on is verified (unwind.h) */
    PSEUDO_UNKNOWN_PYTHON,    /* a Python frame whose code object could not be identified */
    PSEUDO_OTHER_INTERPRETER, /* the Python frames of a subinterpreter */
    PSEUDO_TREE_FULL, /* the tree's bound was reached: what lies below is not distinguished */
    PSEUDO_PYHYBRID, /* the sample met one of our own callbacks, or what runs the program (launcher.h) */
    PSEUDO_KERNEL, /* in a system call; where in the kernel is not known */
    PSEUDO_SIGNALS_BLOCKED, /* the thread that frame_blocked names blocks the signal, so its stack is not known */
    PSEUDO_IMPORT_FUNCTIONS, /* in no spool: calls that pyhybrid/assemble/import_calls.py adds up */
    PSEUDO_TASK, /* what a task of asyncio's runs, below the call that made it (tasks.h) */
};

static inline uint64_t frame_native(uint64_t address)
{
    return address & PYH_ADDR_MASK;
}

static inline uint64_t frame_module(uint32_t module, uint64_t offset)
{
    return (uint64_t)module << PYH_ADDR_BITS | (offset & PYH_ADDR_MASK);
}

static inline uint64_t frame_python(uint64_t code, uint64_t offset)
{
    return PYH_TAG_PYTHON << PYH_TAG_SHIFT | code << PYH_OFFSET_BITS | (offset & PYH_OFFSET_MASK);
}

#define PYH_FUNCTION_OWN (1ull << 23)
#define PYH_FUNCTION_KEPT (1ull << 22)
#define PYH_FUNCTION_WATCHED (1ull << 21)
#define PYH_FUNCTION_INSIDE (1ull << 20)
#define PYH_FUNCTION_MASK (PYH_FUNCTION_INSIDE - 1)

static inline uint64_t frame_function(uint64_t code_id, uint32_t function)
{
    return PYH_TAG_FUNCTION << PYH_TAG_SHIFT | code_id << PYH_OFFSET_BITS | function;
}

/* Returns the number of a raw Python word, or the id of a function's. */
static inline uint64_t frame_code_id(uint64_t word)
{
    return word >> PYH_OFFSET_BITS & ((1ull << PYH_CODE_ID_BITS) - 1);
}

static inline uint64_t frame_pseudo(enum pseudo which)
{
    return PYH_TAG_PSEUDO << PYH_TAG_SHIFT | which;
}

/* Thread `index` of the spool blocks signals. */
static inline uint64_t frame_blocked(uint32_t index)
{
    return frame_pseudo(PSEUDO_SIGNALS_BLOCKED) | (uint64_t)(index & 0xffffff) << 8;
}

static inline uint64_t frame_region(uint32_t number)
{
    return PYH_TAG_REGION << PYH_TAG_SHIFT | number;
}

#define PYH_REGION_OBJECT (1ull << 32)
#define PYH_REGION_CAUSE (1ull << 33)

static inline uint64_t frame_object(uint32_t number)
{
    return frame_region(number) | PYH_REGION_OBJECT;
}

static inline uint64_t frame_cause(uint32_t number)
{
    return frame_region(number) | PYH_REGION_CAUSE;
}

static inline uint64_t frame_line(uint32_t line)
{
    return PYH_TAG_LINE << PYH_TAG_SHIFT | line;
}

static inline uint64_t frame_c_call(uint64_t native)
{
    return PYH_TAG_C_CALL << PYH_TAG_SHIFT | native;
}

static inline uint64_t frame_kernel(uint64_t address)
{
    return PYH_TAG_KERNEL << PYH_TAG_SHIFT | (address & PYH_ADDR_MASK);
}

/* Returns what is the same for all code objects of a function. */
static inline uint64_t frame_key(uint64_t word)
{
    uint64_t id = ((1ull << PYH_CODE_ID_BITS) - 1) << PYH_OFFSET_BITS;
    return word >> PYH_TAG_SHIFT == PYH_TAG_FUNCTION ? word & ~id : word;
}

static inline unsigned frame_tag(uint64_t word)
{
    return (unsigned)(word >> PYH_TAG_SHIFT);
}

static inline int frame_is_object(uint64_t word)
{
    return frame_tag(word) == PYH_TAG_REGION && word & PYH_REGION_OBJECT;
}

#endif
