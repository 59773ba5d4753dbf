/* Sources: Python/ceval_gil.c of CPython 3.12 to 3.15; Linux, kernel/futex and handle_signal() of
 * arch/x86/kernel/signal.c; rseq(2) as glibc 2.35 registers it. */
#include "pyframe_version.h" /* first: it defines Py_BUILD_CORE */

#include "thread_state.h"

#include <linux/futex.h>
#include <linux/rseq.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"
#include "memread.h"

/* <sys/rseq.h> of glibc 2.35; older ones have neither. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* The registers alone would do for a call of pthread_mutex_lock(), of which the first argument lies there, too. */
static bool waits_on(const ucontext_t *context, const struct _gil_runtime_state *gil)
{
    uint64_t address = arch_argument(context, 0), operation = arch_argument(context, 1);
    if (address - (uint64_t)gil >= sizeof *gil || !arch_leaves_syscall(context))
        return false;
    operation &= FUTEX_CMD_MASK;
    return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
}

enum gil_state thread_gil(const ucontext_t *context)
{
    const PyThreadState *ts = PyGILState_GetThisThreadState();
    const struct _gil_runtime_state *gil = ts ? ts->interp->ceval.gil : NULL;
    if (!gil)
        return GIL_NEITHER;
    if (GIL_IS_LOCKED(gil) && GIL_HOLDER(gil) == (uint64_t)ts)
        return GIL_HELD;
    return waits_on(context, gil) ? GIL_WAITING : GIL_NEITHER;
}

bool thread_was_waiting(const ucontext_t *context)
{
    unsigned char code[2];
    uint64_t instruction = arch_interrupted_syscall(context);
    return instruction && memread(code, instruction, sizeof code) && arch_is_syscall(code);
}

uint32_t thread_cpu(void)
{
    /* glibc 2.35 registers this area for each thread; where the kernel or a tunable refuses it, cpu_id shows it. */
    const struct rseq *area = NULL;
    if (&__rseq_size && __rseq_size)
        area = (const struct rseq *)(arch_thread_pointer() + (uint64_t)__rseq_offset);
    if (area && (int32_t)area->cpu_id >= 0)
        return area->cpu_id;
    unsigned cpu = 0;
    arch_syscall6(SYS_getcpu, (long)&cpu, 0, 0, 0, 0, 0);
    return cpu;
}
