/* current_frame.h - the innermost Python frame of the calling thread.
 *
 * Context: with the GIL.
 */
#ifndef PYH_CURRENT_FRAME_H
#define PYH_CURRENT_FRAME_H

#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "arch_x86_64.h"

/* The current thread state's pointer lies here, from the thread pointer on; 0: not known.  The
 * interpreter's own function for it calls __tls_get_addr, which takes longer than all else here. */
extern int64_t current_state_offset;

/* Finds current_state_offset; call it once per session. */
void current_frame_init(void);

/* Checks at a thread's first event that it is so there, too; else it is not known any more. */
void current_frame_check(void);

static inline PyThreadState *current_state_by_call(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

static inline PyThreadState *current_state_at(int64_t offset)
{
    return *(PyThreadState *const *)(arch_thread_pointer() + (uint64_t)offset);
}

/* Call it with current_state_offset, where that is known. */
static inline frame_t *current_frame_at(int64_t offset)
{
    return frame_of_state(current_state_at(offset));
}

static inline frame_t *current_frame(void)
{
    return __builtin_expect(current_state_offset != 0, 1) ? current_frame_at(current_state_offset)
                                                          : frame_of_state(current_state_by_call());
}

/* Returns `f` if it runs `code`; NULL: the event is not that of a frame, but fired by C code. */
static inline frame_t *frame_of_code(frame_t *f, uint64_t code)
{
    return __builtin_expect(f && FRAME_CODE(f) == code, 1) ? f : NULL;
}

#endif
