"""The steps of trainings, compared: how the time of a step, and of each of its phases, changed.

Each step is one observation, so that one run a side shows its error (significance.py); with three
or more a side the runs themselves do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.diff.significance import (
    FEW_RUNS,
    Change,
    Mean,
    change,
    discoveries,
    mean_of_series,
    median_of_series,
    of_runs,
    of_series,
    without_error,
)
from pyhybrid.views.training.phases import all_phases
from pyhybrid.views.training.steps import steps_of

TOTAL, CPU = "total", "cpu"  # beside the phases' names
LEAST_STEPS = 20  # fewer of one run do not show the error
_NONE = Mean(0, 0)  # of a phase that a run did not have


class StepFigures(Record):
    """Hold the steps of one run: how many; of `total`, `cpu` and each phase the median and the
    mean, in nanoseconds."""

    n_steps: int
    medians: dict[str, Mean]
    means: dict[str, Mean]


class StepChange(Struct):
    """Hold the change of the wall-clock time of a step (`total`), of one of its phases, or of the
    step's CPU time in the thread that runs it (`cpu`).

    `n_steps`: of each run before, and after.  `..._differs`: by more than noise, in view of how
    many there are; None: there are too few steps.
    """

    name: str
    n_steps: tuple[list[int], list[int]]
    median: Change
    mean: Change
    median_differs: bool | None = None
    mean_differs: bool | None = None


def step_figures(profile: Profile) -> StepFigures | None:
    """Return the figures; None: there are no steps."""
    found = steps_of(profile)
    if not found:
        return None
    steps = found.steps
    times = {TOTAL: [s.total_ns for s in steps], CPU: [s.cpu_ns for s in steps]}
    times |= {phase: [step.phases.get(phase, 0) for step in steps] for phase in found.phases}
    if len(steps) < 2:
        medians = means = {name: Mean(each[0], 0) for name, each in times.items()}
        return StepFigures(len(steps), medians, means)
    return StepFigures(
        len(steps),
        {name: median_of_series(each) for name, each in times.items()},
        {name: mean_of_series(each) for name, each in times.items()},
    )


def step_changes(before: Sequence[StepFigures], after: Sequence[StepFigures]) -> list[StepChange]:
    """Return the changes of all runs before and after."""
    sides = before, after
    ran = {name for run in [*before, *after] for name in run.medians}
    names = [name for name in (TOTAL, CPU, *all_phases()) if name in ran]
    before_n, after_n = ([run.n_steps for run in side] for side in sides)
    is_enough = min(before_n + after_n) >= LEAST_STEPS

    def compared(of: Callable[[StepFigures], dict[str, Mean]], name: str) -> Change:
        series = [[of(run).get(name, _NONE) for run in side] for side in sides]
        if min(map(len, series)) >= FEW_RUNS:
            return change(*map(_by_runs, series))
        one, other = map(of_series, series)
        return change(one, other) if is_enough else without_error(one.value, other.value)

    changes = [
        StepChange(
            name,
            (before_n, after_n),
            compared(lambda run: run.medians, name),
            compared(lambda run: run.means, name),
        )
        for name in names
    ]
    for each, found in zip(changes, _found(each.median for each in changes), strict=True):
        each.median_differs = found
    for each, found in zip(changes, _found(each.mean for each in changes), strict=True):
        each.mean_differs = found
    return changes


def _by_runs(series: Sequence[Mean]) -> Mean:
    return of_runs([each.value for each in series], [each.variance for each in series])


def _found(changes: Iterable[Change]) -> list[bool | None]:
    """Return which are more than noise; None: it is not known."""
    made = list(changes)
    known = [each for each in made if each.low > -inf]
    verdicts = dict(zip(map(id, known), discoveries([each.p for each in known]), strict=True))
    return [verdicts.get(id(each)) for each in made]
