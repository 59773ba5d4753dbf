/* pyframe_version.h - what differs between CPython versions, as far as frames and the GIL go.
 *
 * Private to pyframe.c, pyframe_calibrate.c, thread_state.c and instrument/.  Source: Include/internal/pycore_frame.h of CPython
 * 3.12 to 3.15.
 */
#ifndef PYH_PYFRAME_VERSION_H
#define PYH_PYFRAME_VERSION_H

#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_genobject.h>
#include <internal/pycore_stackref.h>
#endif
#include <stdbool.h>
#include <stdint.h>

typedef _PyInterpreterFrame frame_t;

#if PY_VERSION_HEX >= 0x030e0000
#define OWNED_BY_EVAL FRAME_OWNED_BY_INTERPRETER
#define FRAME_CODE(f) ((uint64_t)(f)->f_executable.bits & ~3ull)
#elif PY_VERSION_HEX >= 0x030d0000
#define OWNED_BY_EVAL FRAME_OWNED_BY_CSTACK
#define FRAME_CODE(f) ((uint64_t)(f)->f_executable)
#else
#define OWNED_BY_EVAL FRAME_OWNED_BY_CSTACK
#define FRAME_CODE(f) ((uint64_t)(f)->f_code)
#endif

#if PY_VERSION_HEX >= 0x030d0000
#define FRAME_INSTRUCTION(f) ((uint64_t)(f)->instr_ptr)
#else
#define FRAME_INSTRUCTION(f) ((uint64_t)(f)->prev_instr)
#endif

/* A local variable of a frame that runs, borrowed. */
#if PY_VERSION_HEX >= 0x030e0000
#define FRAME_LOCAL(f, i) PyStackRef_AsPyObjectBorrow((f)->localsplus[i])
#else
#define FRAME_LOCAL(f, i) ((f)->localsplus[i])
#endif

/* Fields of a struct _gil_runtime_state. */
#if PY_VERSION_HEX >= 0x030d0000
#define GIL_IS_LOCKED(gil) ((gil)->locked > 0)
#define GIL_HOLDER(gil) ((uint64_t)(gil)->last_holder)
#else
#define GIL_IS_LOCKED(gil) ((gil)->locked._value > 0)
#define GIL_HOLDER(gil) ((uint64_t)(gil)->last_holder._value)
#endif

/* Returns the innermost frame of a thread that has the GIL. */
static inline frame_t *frame_of_state(const PyThreadState *ts)
{
#if PY_VERSION_HEX >= 0x030d0000
    return ts->current_frame;
#else
    return ts->cframe->current_frame;
#endif
}

/* Is it the entry frame of an eval loop (pyframe.h)? */
#define FRAME_IS_ENTRY(f) ((f)->owner == OWNED_BY_EVAL)

/* Returns the offset of `instruction` in the code object at `code`, in code units; 0 before the first. */
static inline uint32_t instruction_offset(uint64_t code, uint64_t instruction)
{
    int64_t offset = (int64_t)(instruction - code - offsetof(PyCodeObject, co_code_adaptive)) / 2;
    return offset < 0 || offset > 0xffffff ? 0 : (uint32_t)offset;
}

#define FRAME_HEAD offsetof(frame_t, localsplus)

#endif
