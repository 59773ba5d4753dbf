"""CPython's perf trampoline (`--perf-trampoline`): Python functions for a `perf record` around us.

Each Python function gets a piece of machine code of its own, which calls the interpreter's loop,
and that code gets a name: in /tmp/perf-PID.map (the backend "perf"), or in a jitdump with unwind
information ("perf_jit").  Without such perf can walk the stack by frame pointers only, which most
interpreters are built without.  Source: CPython Doc/howto/perf_profiling.rst,
Python/perf_trampoline.c and perf_jit_trampoline.c.

In our own stacks trampolines are plumbing (plumbing.is_trampoline), and unwound by their
instructions (cfi.h, cfi_find_trampoline); the perf map that we write keeps their lines
(exporters/perf/names_map.py).
"""

import contextlib
import os
import sys

from pyhybrid.capture.jit_files import is_of_this_process, perf_map_path, why_not_ours
from pyhybrid.errors import PyhybridError, UsageError

_RUN = "-m pyhybrid --perf-trampoline ..."
# All of the stack that perf can copy.  The 8 KiB that it copies by itself are five Python calls.
_DWARF = "perf record -F 999 -k mono --call-graph dwarf,65528 -- python -X perf_jit"
_INJECT = "perf inject --jit -i perf.data -o jit.data; perf report -i jit.data"


def has_frame_pointers() -> bool:
    """Was the interpreter built with them?  The compiler's last word counts."""
    import sysconfig

    names = ("PY_CFLAGS", "PY_CFLAGS_NODIST", "PY_CORE_CFLAGS")
    flags = " ".join(str(sysconfig.get_config_var(name) or "") for name in names).split()
    choices = ("-fno-omit-frame-pointer", "-fomit-frame-pointer")
    return [flag for flag in flags if flag in choices][-1:] == [choices[0]]


def activate() -> str:
    """Switch the trampoline on, unless it is, and return the advice for the user.

    Raises UsageError where this interpreter has none; PyhybridError where its file cannot be
    written.
    """
    complete = has_frame_pointers()
    if not sys.is_stack_trampoline_active():
        backends = ["perf"] if complete or sys.version_info < (3, 13) else ["perf_jit", "perf"]
        _make_way()
        while not sys.is_stack_trampoline_active():
            try:
                sys.activate_stack_trampoline(backends.pop(0))
            except (ValueError, RuntimeError) as error:
                if not backends:  # 3.13 has perf_jit as an option of the interpreter only
                    raise UsageError(f"--perf-trampoline: {error}") from None
    return f"perf trampoline on; {_advice(complete)}"


def _make_way() -> None:
    """Remove the map that an older process of this number left: CPython would append to it.

    Raises PyhybridError where CPython could not write it.
    """
    path = perf_map_path(os.getpid())
    if refused := why_not_ours(path):
        raise PyhybridError(f"--perf-trampoline: {path}: {refused}")
    with contextlib.suppress(FileNotFoundError):
        if not is_of_this_process(path):
            os.unlink(path)


def _advice(complete: bool) -> str:
    """Return which command of perf shows whole stacks of this interpreter."""
    if complete:
        return (
            "this interpreter has frame pointers: for full stacks run it as "
            f"`perf record -F 999 -g -- python {_RUN}`"
        )
    lacks = "this interpreter has no frame pointers: for full stacks"
    if sys.version_info >= (3, 13):
        return f"{lacks} run it as `{_DWARF} {_RUN}`, then `{_INJECT}`"
    return (
        f"{lacks} use what pyhybrid writes, or CPython 3.13; of `perf record --call-graph dwarf` "
        "only the innermost Python function has a name"
    )
