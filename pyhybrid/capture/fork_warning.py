"""Nobody is warned of our threads when the program forks (src/python/fork_warning.c)."""

import os
from collections.abc import Callable
from posix import getpid  # at the end `os` may have another
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhybrid.capture.profiling_run import Profiling

TEXT = "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."

_of_outputs = 0  # threads of live outputs' libraries, which stay to the end
_watched: "list[Profiling]" = []  # at most one: the run that forks concern
# The extension, once it is registered: such callbacks cannot be taken back.  It is kept here, for
# a program may have cleared sys.modules when its run ends.
_registered: list[ModuleType] = []


def load_output(native: ModuleType, load: Callable[..., str], *arguments: object) -> str:
    """What `load(*arguments)` returns; the threads that it starts are ours."""
    global _of_outputs
    before = native.thread_count()
    said = load(*arguments)
    after = native.thread_count()
    if 0 < before < after:
        _of_outputs += after - before
    return said


def watch(run: "Profiling | None") -> None:
    """From now on forks concern this run; None: no run."""
    _watched[:] = [run] if run else []
    if run and not _registered:
        import _warnings  # noqa: F401 - without `warnings`, its filters are those that count

        _registered.append(run.native)
        os.register_at_fork(before=run.native.before_fork, after_in_child=run.native.forget_forks)
        os.register_at_fork(after_in_child=_in_forked_child)
    texts = tuple(TEXT.format(getpid(), name) for name in ("fork", "forkpty"))
    for native in _registered:
        message = SimpleNamespace(match=native.warns_of_ours)  # `match` is what is asked of one
        entry = ("ignore", message, DeprecationWarning, None, 0)
        native.quiet_forks(_of_outputs + len(_watched), texts, entry)


def _in_forked_child() -> None:
    for run in _watched:
        run.in_forked_child()
    _watched.clear()
