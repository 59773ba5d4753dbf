"""`--start-at`: a profile begins with a step, or the program at a moment that hosts share; and who
else awaits steps.

Steps are calls of an optimizer of PyTorch's that have returned, seen by a tool of its own of
sys.monitoring, which has an event of that one function; where there are none, calls of
`pyhybrid.step`.  Nothing else is watched until then.
"""

from __future__ import annotations

import sys
from time import sleep, time

from pyhybrid.base.light import suppress
from pyhybrid.options.kinds import StartAt

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

LONGEST_SLEEP_S = 0.2

awaited: StepCount | None = None  # of the run of the command line


def await_moment(text: str) -> None:
    """Wait until so many seconds of the time of day are full: `/10s`."""
    every_s = StartAt.every_s(text)
    until = (time() // every_s + 1) * every_s
    while (left := until - time()) > 0:
        sleep(min(left, LONGEST_SLEEP_S))  # the clock may be set meanwhile


def await_step(text: str, begin: Callable[[], object]) -> bool:
    """Call `begin` after so many steps, `step=N`; False: the text does not ask for that."""
    global awaited
    n = StartAt.step(text)
    awaited = StepCount(n, begin) if n else None
    return bool(n)


def on_steps(call: Callable[[], object]) -> None:
    """Call it after each step, in the thread that has done it."""
    global awaited
    awaited = StepCount(0, call)


def package_begins(code: CodeType) -> None:
    """Count optimizers of PyTorch's, whose package is being imported, if steps are awaited."""
    if awaited:
        awaited.package_begins(code)


def mark() -> None:
    """Count a step that the program marks (`pyhybrid.step`)."""
    if awaited:
        awaited.marked()


class StepCount:
    """Count steps, and call `begin` after `n`; 0: after each."""

    def __init__(self, n: int, begin: Callable[[], object]) -> None:
        self._n, self._begin = n, begin
        self._n_seen = 0
        self._tool = -1
        self._package: CodeType | None = None
        self._optimizer: CodeType | None = None

    def marked(self) -> None:
        """Count one, unless optimizers are counted."""
        if not self._optimizer:
            self._count()

    def package_begins(self, code: CodeType) -> None:
        """Watch PyTorch's optimizers once it is imported; `code` is that of its package."""
        monitoring = sys.monitoring
        free = [tool for tool in range(6) if monitoring.get_tool(tool) is None]
        if not free:
            return
        self._tool, self._package = free[-1], code
        monitoring.use_tool_id(self._tool, "pyhybrid --start-at")
        event = monitoring.events.PY_RETURN
        monitoring.register_callback(self._tool, event, self._returned)
        monitoring.set_local_events(self._tool, code, event)

    def _returned(self, code: CodeType, *_: object) -> None:
        if code is self._package:
            self._unwatch(code)
            self._package = None
            with suppress(Exception):  # it has none that we know
                self._optimizer = _optimizer()
                sys.monitoring.set_local_events(
                    self._tool, self._optimizer, sys.monitoring.events.PY_RETURN
                )
        elif code is self._optimizer:
            self._count()

    def _unwatch(self, code: CodeType | None) -> None:
        if code:
            sys.monitoring.set_local_events(self._tool, code, 0)

    def _count(self) -> None:
        global awaited
        self._n_seen += 1
        if not self._n:
            self._begin()
            return
        if self._n_seen < self._n or awaited is not self:
            return
        awaited = None
        if self._tool >= 0:
            self._unwatch(self._optimizer)
            self._unwatch(self._package)
            sys.monitoring.register_callback(self._tool, sys.monitoring.events.PY_RETURN, None)
            sys.monitoring.free_tool_id(self._tool)
        self._begin()


def _optimizer() -> CodeType:
    """Return the code through which each optimizer is called.  Raises KeyError and the like."""
    from pyhybrid.frameworks import torch

    (name,) = torch.steps()["phases"][torch.steps()["ends"]]
    file, _, names = name.rpartition(":")
    module = file.strip("/").removesuffix(".py").replace("/", ".")
    outer, method, _, inner = names.split(".")
    found = vars(vars(sys.modules[module])[outer])[method]
    code: CodeType = getattr(found, "__func__", found).__code__
    called: CodeType = next(c for c in code.co_consts if getattr(c, "co_name", "") == inner)
    return called
