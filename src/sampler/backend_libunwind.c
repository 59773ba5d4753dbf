/* The libunwind backend: the reference that tests compare our own unwinder with, and a choice for
 * users (--unwinder libunwind).  A shared object of its own, loaded with RTLD_LOCAL only when it is
 * chosen, so that libunwind's _Unwind_* functions cannot take over C++ exceptions.
 *
 * Context: called in the signal handler, but libunwind is not async-signal-safe in full: it calls
 * dl_iterate_phdr, and malloc at first (libunwind issue 16).
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stddef.h>

#include "unwind.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max,
                                 enum unwind_end *end);

EXPORT size_t pyh_unwind_backend(void *context, struct native_frame *out, size_t max,
                                 enum unwind_end *end)
{
    unw_cursor_t cursor;
    size_t n = 0;
    int step = 1, exact = 1, was_exact;
    *end = UNWIND_TRUNCATED;
    if (unw_init_local2(&cursor, context, UNW_INIT_SIGNAL_FRAME))
        return 0;
    while (n < max && step > 0) {
        unw_word_t pc, cfa;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || !pc)
            break;
        step = unw_step(&cursor);
        if (step < 0 || unw_get_reg(&cursor, UNW_REG_SP, &cfa))
            cfa = ~0ull;
        out[n++] = (struct native_frame){.pc = pc - !exact, .cfa = step > 0 ? cfa : ~0ull};
        /* True of the frame that a signal interrupted, not of the trampoline (x86_64/Gstep.c), which
         * nobody calls: it is returned to at its begin. */
        was_exact = exact;
        exact = step > 0 && unw_is_signal_frame(&cursor) > 0;
        out[n - 1].pc += exact && !was_exact;
    }
    if (step == 0)
        *end = UNWIND_COMPLETE;
    else if (n == max)
        *end = UNWIND_TOO_DEEP;
    return n;
}
