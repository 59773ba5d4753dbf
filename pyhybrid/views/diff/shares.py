"""How functions' time changed against the rest of their runs, which a busy machine leaves alone.

What a machine does to a run it does to all of its functions, so their ratio differs far less from
run to run than their times do.  A function's share is its sampled time, with all that it calls,
over that of the rest: of all that was sampled outside of it, but for functions whose own time
changed against the others' for certain (then another one that got faster makes none slower).  A
function that works 30 % longer has a share of 30 % more, however much of the program it is.  Where
all of a program got slower no share changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from pyhybrid.views.diff.function_figures import Figures, Function, Sampled
from pyhybrid.views.diff.significance import (
    FEW_RUNS,
    RUN_TO_RUN,
    Change,
    Mean,
    Spread,
    change,
    moderated,
    spread_within,
)

LEAST_REST = (
    0.05  # of all time, and LEAST_SAMPLES a run: with less there is nothing to compare with
)
LEAST_SAMPLES = 20
# Functions are left out of the rest where they changed with less than this probability by chance,
# all together, and as long as this share of all time is left.
LEFT_OUT, LEAST_LEFT = 0.1, 0.25


class Run(Protocol):
    """Have what shares are made of: `within` is that of RunFigures."""

    all: Figures
    period_ns: int
    within: dict[tuple[Function, Function], int]

    def of(self, function: Function) -> Figures:
        """Return what the run has of any function."""


class _Part(NamedTuple):
    """Have some time of each run, and the rest's; nanoseconds."""

    times: list[Sampled]
    rests: list[float]


class Shares:
    """Compare shares of runs before and after; `left_out` are the functions that are in no rest,
    and `changes` those of all others that can be compared."""

    def __init__(
        self, before: Sequence[Run], after: Sequence[Run], functions: Iterable[Function]
    ) -> None:
        self._runs, self._n = [*before, *after], len(before)
        self._by_runs = min(len(before), len(after)) >= FEW_RUNS
        self.left_out: list[Function] = []
        compared = list(functions)
        own = [each for each in compared if any((each, each) in run.within for run in self._runs)]
        while changed := self._most_changed(own):
            self.left_out.append(changed)
        self.changes = self._changes({each: self._total(each) for each in compared})

    def _total(self, function: Function) -> _Part:
        times = [run.of(function).total for run in self._runs]
        return _Part(
            times,
            [
                run.all.total.time_ns - time.time_ns - self._left_out_of(run, function)
                for run, time in zip(self._runs, times, strict=True)
            ],
        )

    def _left_out_of(self, run: Run, function: Function) -> float:
        """Return the own time, outside of the function, of what is left out."""
        of = run.within.get
        return sum(of((each, each), 0) - of((each, function), 0) for each in self.left_out)

    def _own(self, function: Function) -> _Part:
        """Return its own time, of which no other has a part."""
        times, rests = [], []
        for run in self._runs:
            figures = run.of(function)
            variance = (figures.below if function.kind == "python" else figures.self).variance
            time_ns = run.within.get((function, function), 0)
            times.append(Sampled(time_ns, variance))
            left = sum(run.within.get((each, each), 0) for each in self.left_out)
            rests.append(run.all.total.time_ns - time_ns - left)
        return _Part(times, rests)

    def _most_changed(self, own: list[Function]) -> Function | None:
        """Return whose own time changed most certainly, where any did for certain."""
        parts = {each: self._own(each) for each in own if each not in self.left_out}
        changes = self._changes(parts)

        def certainty(each: Function) -> tuple[float, float]:
            # Of two that are all there is either may have changed: rather that which took longer.
            sides = (parts[each].times[side] for side in self._sides())
            before, after = (sum(e.time_ns for e in side) / len(side) for side in sides)
            return float(f"{changes[each].p:.3g}"), -abs(after - before)

        found = min(changes, key=certainty, default=None)
        if found is None or changes[found].p * len(own) >= LEFT_OUT:
            return None
        left_out = [*self.left_out, found]
        all_ns = sum(run.all.total.time_ns for run in self._runs)
        own_ns = sum(run.within.get((e, e), 0) for run in self._runs for e in left_out)
        is_enough = own_ns <= (1 - LEAST_LEFT) * all_ns and 2 * len(left_out) <= len(own)
        return found if is_enough else None

    def _changes(self, parts: dict[Function, _Part]) -> dict[Function, Change]:
        parts = {each: part for each, part in parts.items() if self._has_rest(part)}
        spreads = {each: self._spread(part) for each, part in parts.items()}
        freedom = len(self._runs) - 2
        if self._by_runs:
            known = moderated(list(spreads.values()), freedom)
        else:
            known = [(each.counted + RUN_TO_RUN**2, float("inf")) for each in spreads.values()]
        changes = {}
        for (function, part), (variance, freedoms) in zip(parts.items(), known, strict=True):
            sides = (self._mean(part, side, variance) for side in self._sides())
            changes[function] = change(*sides, freedom=freedoms)
        return changes

    def _sides(self) -> tuple[slice, slice]:
        return slice(self._n), slice(self._n, None)

    def _has_rest(self, part: _Part) -> bool:
        """Is enough outside of it, in each run?"""
        for run, rest in zip(self._runs, part.rests, strict=True):
            least = max(LEAST_REST * run.all.total.time_ns, LEAST_SAMPLES * run.period_ns)
            if rest < least:
                return False
        return True

    def _spread(self, part: _Part) -> Spread:
        ratios = _ratios(part)
        counted = []
        for run, time, rest in zip(self._runs, part.times, part.rests, strict=True):
            # What is not in the one is in the other: as many ticks are in both.
            own_ns = max(time.time_ns, run.period_ns)
            counted.append(max(time.variance, run.period_ns**2) * (1 / own_ns + 1 / rest) ** 2)
        seen = spread_within([ratios[side] for side in self._sides()]) if self._by_runs else 0.0
        return Spread(seen, sum(counted) / len(counted))

    def _mean(self, part: _Part, side: slice, variance: float) -> Mean:
        ratios, n = _ratios(part)[side], len(part.rests[side])
        value = sum(ratios) / n
        # Of a function that is not there a sample may have been missed.
        runs = zip(self._runs[side], part.rests[side], strict=True)
        least = sum((run.period_ns / rest) ** 2 for run, rest in runs) / n
        return Mean(value, max(variance * value**2, least if not value else 0.0) / n, runs=n)


def _ratios(part: _Part) -> list[float]:
    return [time.time_ns / rest for time, rest in zip(part.times, part.rests, strict=True)]
