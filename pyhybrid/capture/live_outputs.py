"""Live outputs of a run: sinks, which receive calls as they happen, and tools of other systems.

Both are shared objects of ours, loaded where they are asked for.
"""

from __future__ import annotations

import errno
import os
from _functools import partial  # type: ignore[import-not-found]
from posix import getpid  # at the end `os` may have another
from types import ModuleType, SimpleNamespace

from pyhybrid.capture.std_streams import say
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.options.kinds import native_number
from pyhybrid.options.settings import Settings
from pyhybrid.options.table import TOOLS, TRACY

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyhybrid.capture.profiling_run import Profiling
    from pyhybrid.capture.tracy_capture import TracyCapture


class LiveOutputs:
    """Open what `settings` ask for; `capture` is of the process that captures Tracy's zones."""

    def __init__(self, settings: Settings, python: str | None) -> None:
        """Prepare them; `python` is an interpreter for other processes."""
        from pyhybrid import _native  # which was found: the run has reported where it is not there

        self._settings, self._native, self._python = settings, _native, python
        self.capture: TracyCapture | None = None

    def open_sinks(self) -> None:
        """Open what can be had; UsageError where there is none and nothing else was asked for."""
        n_open = 0
        failed = []
        for name, argument in self._settings.sinks:
            try:
                note = load_output(self._native, self._open_sink, name, argument)
                n_open += 1
                if note:
                    say(f"the live output {name}: {note}")
            except (OSError, ValueError, PyhybridError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                if getattr(error, "errno", 0) == errno.EBUSY:
                    raise PyhybridError(f"cannot start: {reason}") from None
                failed.append(f"the live output {name} is not to be had: {reason}")
        if not self._settings.counts and not n_open:
            raise UsageError("; ".join(failed))
        for message in failed:
            say(message)

    def _open_sink(self, name: str, argument: str) -> str:
        """Open it, and return its note.  Raises OSError, ValueError, PyhybridError, not open."""
        path = os.path.join(os.path.dirname(self._native.__file__), f"libpyhybrid_{name}.so")
        if not os.path.exists(path):
            raise PyhybridError("pyhybrid was built without it (docs/live-outputs.md)")
        values = native_number("EMIT_VALUE", self._settings.emit_value)
        words = os.fsencode(path), os.fsencode(argument), values
        if name != TRACY or self._settings.tracy is None:
            return self._native.emit(*words)
        from pyhybrid.capture.tracy_capture import TracyCapture

        self.capture = TracyCapture(self._native, self._python, self._settings.tracy, argument)
        return self.capture.around(lambda: self._native.emit(*words))

    def open_tools(self) -> None:
        """Open those by which others' instrumentation finds us; they stay, for it calls on."""
        folder = os.path.dirname(self._native.__file__)
        for name, variable in TOOLS.items():
            if name not in self._settings.regions:
                continue
            path = f"{folder}/libpyhybrid_tool_{name}.so"
            try:
                if not variable:
                    self._native.open_tool(os.fsencode(path))
                elif (os.environ.get(variable) or path) != path:
                    say(f"--regions {name}: what {variable} names is told, and pyhybrid is not")
                else:  # they load it; the program's own `os.environ` stays as it is
                    os.putenv(variable, path)
            except OSError as error:
                say(f"the tool {name} is not to be had: {error.strerror or error}")


# Nobody is warned of our threads when the program forks (src/python/fork_warning.c).

TEXT = "This process (pid={}) is multi-threaded, use of {}() may lead to deadlocks in the child."

_of_outputs = 0  # threads of live outputs' libraries, which stay to the end
_attached: list[Callable[[], object]] = []  # one for each that attached
_watched: list[Profiling] = []  # at most one: the run that forks concern
# The extension, once it is registered: such callbacks cannot be taken back.  It is kept here, for
# a program may have cleared sys.modules when its run ends.
_registered: list[ModuleType] = []


def load_output(native: ModuleType, load: Callable[..., str], *arguments: object) -> str:
    """Return what `load(*arguments)` returns; the threads that it starts are ours."""
    global _of_outputs
    before = native.thread_count()
    note = load(*arguments)
    after = native.thread_count()
    if 0 < before < after:
        _of_outputs += after - before
    return note


def watch_forks(run: Profiling | None) -> None:
    """Let forks concern this run from now on; None: no run."""
    _watched[:] = [run] if run else []
    if run and not _registered:
        _register(run.native)
    _quieten()


def watch_attached(native: ModuleType, leave: Callable[[], object], *, ends: bool = False) -> None:
    """Let nobody be warned of a thread that profiles for who attached, and a forked child call
    `leave`, until it `ends`."""
    (_attached.remove if ends else _attached.append)(leave)
    if native not in _registered:
        _register(native)
    _quieten()


def _register(native: ModuleType) -> None:
    import _warnings  # noqa: F401 - without `warnings`, its filters are those that count

    _registered.append(native)
    os.register_at_fork(before=native.before_fork, after_in_child=native.forget_forks)
    in_child = partial(native.after_fork_in_child, _in_forked_child)
    os.register_at_fork(after_in_child=in_child, after_in_parent=native.after_fork_in_parent)


def _quieten() -> None:
    texts = tuple(TEXT.format(getpid(), name) for name in ("fork", "forkpty"))
    for native in _registered:
        message = SimpleNamespace(match=native.warns_of_ours)  # `match` is what is asked of one
        entry = ("ignore", message, DeprecationWarning, None, 0)
        recorders = sum(run.recorder is not None for run in _watched)
        n_ours = _of_outputs + len(_attached) + len(_watched) + recorders
        native.quiet_forks(n_ours, texts, entry)


def _in_forked_child() -> None:
    watched, leaves = _watched[:], _attached[:]
    _watched.clear()
    _attached.clear()
    for leave in leaves:
        leave()
    for run in watched:
        run.in_forked_child()
