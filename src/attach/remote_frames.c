/* Sources: Include/internal/pycore_runtime.h, pycore_interp.h, pycore_ceval_state.h, pycore_gil.h, of CPython 3.12 to
 * 3.15. */
#include "remote.h"

#include "pyframe_version.h"

#include <internal/pycore_interp.h>
#include <sys/uio.h>

bool remote_read(pid_t pid, uint64_t address, void *to, size_t n)
{
    struct iovec here = {to, n}, there = {(void *)address, n};
    return address && process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

#define READ(pid, address, type, field, to)                                                        \
    remote_read(pid, (uint64_t)(address) + offsetof(type, field), to, sizeof *(to))

bool remote_interpreter(pid_t pid, uint64_t runtime, struct remote_interpreter *out)
{
    struct _gil_runtime_state gil;
    uint64_t finalizing = 0;
    *out = (struct remote_interpreter){0};
    if (!READ(pid, runtime, _PyRuntimeState, interpreters.main, &out->main) ||
        !READ(pid, runtime, _PyRuntimeState, _finalizing, &finalizing))
        return false;
    out->ends = finalizing != 0;
    if (!out->main)
        return true;
    if (!READ(pid, out->main, PyInterpreterState, ceval.gil, &out->gil) ||
        !remote_read(pid, out->gil, &gil, sizeof gil) ||
        !READ(pid, out->main, PyInterpreterState, threads.head, &out->first))
        return false;
    out->gil_end = out->gil + sizeof gil;
    out->holder = GIL_IS_LOCKED(&gil) ? GIL_HOLDER(&gil) : 0;
    out->switches = gil.switch_number;
#if PY_VERSION_HEX >= 0x030d0000
    out->pending_lock = runtime + offsetof(_PyRuntimeState, ceval.pending_mainthread.mutex);
    out->pending_mask = 0xff; /* a byte: PyMutex */
#else
    if (!READ(pid, runtime, _PyRuntimeState, ceval.pending_mainthread.lock, &out->pending_lock))
        return false;
    out->pending_mask = 0xffffffff; /* the value of a semaphore */
    out->pending_free = 1;
#endif
    return true;
}

bool remote_thread(pid_t pid, uint64_t state, struct remote_thread *out)
{
    PyThreadState ts;
    if (!remote_read(pid, state, &ts, sizeof ts))
        return false;
    *out = (struct remote_thread){
        .state = state, .next = (uint64_t)ts.next, .tid = (uint64_t)ts.native_thread_id};
#if PY_VERSION_HEX >= 0x030d0000
    out->frame = (uint64_t)ts.current_frame;
#else
    _PyCFrame cframe;
    if (remote_read(pid, (uint64_t)ts.cframe, &cframe, sizeof cframe))
        out->frame = (uint64_t)cframe.current_frame;
#endif
    return true;
}

bool remote_withdraw(pid_t pid, uint64_t state)
{
#if PY_VERSION_HEX >= 0x030e0000
    int32_t none = 0;
    uint64_t at = state + offsetof(PyThreadState, remote_debugger_support.debugger_pending_call);
    struct iovec here = {&none, sizeof none}, there = {(void *)at, sizeof none};
    return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof none;
#else
    (void)pid;
    (void)state;
    return true;
#endif
}

bool remote_frame(pid_t pid, uint64_t address, struct remote_frame *out)
{
    frame_t f;
    if (!remote_read(pid, address, &f, FRAME_HEAD))
        return false;
    *out = (struct remote_frame){.frame = address, .previous = (uint64_t)f.previous};
    if (!FRAME_IS_ENTRY(&f)) {
        out->code = FRAME_CODE(&f);
        out->offset = instruction_offset(out->code, FRAME_INSTRUCTION(&f));
    }
    return true;
}

bool remote_text(pid_t pid, uint64_t address, struct remote_text *out)
{
    PyCompactUnicodeObject s;
    if (!remote_read(pid, address, &s._base, sizeof s._base) || !s._base.state.compact ||
        s._base.length < 0)
        return false;
    out->kind = s._base.state.kind;
    out->length = s._base.length > REMOTE_TEXT_MAX ? REMOTE_TEXT_MAX : (uint32_t)s._base.length;
    out->address = address + (s._base.state.ascii ? sizeof s._base : sizeof s);
    return out->kind == 1 || out->kind == 2 || out->kind == 4;
}

bool remote_code(pid_t pid, uint64_t address, struct remote_code *out)
{
    PyCodeObject code;
    PyBytesObject table;
    if (!remote_read(pid, address, &code, offsetof(PyCodeObject, co_code_adaptive)))
        return false;
    *out = (struct remote_code){.first_line = (uint32_t)code.co_firstlineno};
    uint64_t at = (uint64_t)code.co_linetable;
    if (remote_read(pid, at, &table, offsetof(PyBytesObject, ob_sval)) &&
        table.ob_base.ob_size > 0 && table.ob_base.ob_size <= REMOTE_TABLE_MAX) {
        out->table = at + offsetof(PyBytesObject, ob_sval);
        out->table_length = (uint32_t)table.ob_base.ob_size;
    }
    return remote_text(pid, (uint64_t)code.co_qualname, &out->qualname) &&
           remote_text(pid, (uint64_t)code.co_filename, &out->file);
}
