"""The last steps of a training, or of inference, by the rules of views/training.

Of the single calls that make them the newest ones are kept (`MOST_CALLS`), and the rules see a
profile of these alone.  The first step of those is left out, since its begin may be.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Any, cast

from pyhybrid.base.structs import Struct
from pyhybrid.live.functions import Function
from pyhybrid.tables import COLLECTION, Frame, Nodes, WatchedCall
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile
from pyhybrid.views.training.steps import Step, kind_text, steps_of

MOST_CALLS = 512
SHOWN = 40  # steps whose times are given one by one


class StepsNow(Struct):
    """Hold the last steps, so many, in seconds: `phases` are medians, and so is the step's; `last`
    and `slowest` are of one step each."""

    kind: str
    n: int
    median_s: float
    last_s: float
    slowest_s: float
    steps_per_s: float
    tokens_per_s: float | None
    phases: dict[str, float]
    last_phases: dict[str, float]
    times_s: list[float]


class LastSteps:
    """Keep the newest calls of one process that steps are made of."""

    def __init__(self) -> None:
        self._calls: deque[WatchedCall] = deque(maxlen=MOST_CALLS)
        self._frames: dict[tuple[str, str, int], int] = {}
        self._known: StepsNow | None = None
        self._is_new = False

    def add(self, calls: Iterable[tuple[Function, WatchedCall]]) -> None:
        """Take calls, each with its function."""
        for function, call in calls:
            if call.raised >= COLLECTION:
                continue
            key = function.name, function.file, function.line
            frame = self._frames.setdefault(key, len(self._frames) + 1)
            self._calls.append(call._replace(node=frame))
            self._is_new = True

    def now(self) -> StepsNow | None:
        """Return the last steps; None: there are none."""
        if self._is_new:
            self._is_new = False
            self._known = self._found() or self._known
        return self._known

    def _found(self) -> StepsNow | None:
        found = steps_of(self._profile())
        steps = found.steps[1:] if found else []
        if not found or not steps:
            return None
        times = [step.total_ns / 1e9 for step in steps]
        span_s = (steps[-1].end_ns - steps[0].begin_ns) / 1e9 or 1.0
        tokens = sum(step.tokens for step in steps)
        return StepsNow(
            kind_text(found.trains),
            len(steps),
            median(times),
            times[-1],
            max(times),
            len(steps) / span_s,
            tokens / span_s if tokens else None,
            {name: median(_of(step, name) for step in steps) for name in found.phases},
            {name: _of(steps[-1], name) for name in found.phases},
            times[-SHOWN:],
        )

    def _profile(self) -> Profile:
        """Return a profile that has these calls alone."""
        numbers = array("I", range(len(self._frames) + 1))
        frames = {
            number: Frame(number, "python", *key, None, None, None, None, "code")
            for key, number in self._frames.items()
        }
        calls = sorted(self._calls, key=lambda each: (each.thread, each.begin_ns, -each.end_ns))
        parts: dict[str, Any] = {
            "nodes": Nodes(array("I", bytes(4 * len(numbers))), numbers),
            "frames": frames,
            "watched_calls": calls,
            "calls": [],
            "exact": ExactTable(),
        }
        return Profile("", cast(Any, None), **parts)


def _of(step: Step, phase: str) -> float:
    return step.phases.get(phase, 0) / 1e9
