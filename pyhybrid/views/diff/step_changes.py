"""The steps of trainings, compared: how the time of a step, and of each of its phases, changed.

Each step is one observation, so that one run a side shows its error (significance.py); with three
or more a side the runs themselves do.  What of a phase changed most is by exact times of modules
and of the program's functions, of all steps together; of CPU time by samples of these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import inf

from pyhybrid.base.structs import Struct, made
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
from pyhybrid.views.labels import labels_of
from pyhybrid.views.training.model import model_figures
from pyhybrid.views.training.phase_functions import phase_functions
from pyhybrid.views.training.phases import BACKWARD, FORWARD, all_phases
from pyhybrid.views.training.steps import Steps, steps_of

TOTAL, CPU = "total", "cpu"  # beside the phases' names
LEAST_STEPS = 20  # fewer of one run do not show the error
LEAST_PART, MOST_PARTS = 0.1, 3  # of a change
_NONE = Mean(0, 0)  # of a phase that a run did not have


class StepFigures(Record):
    """Hold the steps of one run: how many; of `total`, `cpu` and each phase the median and the
    mean, in nanoseconds.  `parts`: of each phase, and of `cpu`, what a step has in which module or
    function."""

    n_steps: int
    medians: dict[str, Mean]
    means: dict[str, Mean]
    parts: dict[str, dict[str, float]]
    trains: bool


class PartChange(Record):
    """Hold a module or function of a phase, and its mean exact times in a step, in nanoseconds; of
    `cpu` its CPU time by samples."""

    part: str
    before_ns: int
    after_ns: int

    @property
    def more_ns(self) -> int:
        """Return by how much it takes longer."""
        return self.after_ns - self.before_ns


class StepChange(Struct):
    """Hold the change of the wall-clock time of a step (`total`), of one of its phases, or of the
    step's CPU time in the thread that runs it (`cpu`).

    `n_steps`: of each run before, and after; `trains`: they are of trainings.  `..._differs`: by
    more than noise, in view of how many there are; None: there are too few steps.  `parts`: what
    of it changed most in the way in which its mean did.
    """

    name: str
    n_steps: tuple[list[int], list[int]]
    trains: bool
    median: Change
    mean: Change
    median_differs: bool | None = None
    mean_differs: bool | None = None
    parts: list[PartChange] = made(list)


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
    else:
        medians = {name: median_of_series(each) for name, each in times.items()}
        means = {name: mean_of_series(each) for name, each in times.items()}
    return StepFigures(len(steps), medians, means, _parts(profile, found), found.trains)


def _parts(profile: Profile, found: Steps) -> dict[str, dict[str, float]]:
    """Return modules of both passes, without those in them, and functions of the other phases."""
    parts: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    n, labels = len(found.steps), labels_of(profile, full_names=False)
    has_modules = any(frame.is_object for frame in profile.frames.values())
    for each in model_figures(profile).modules if has_modules else ():
        name = f"{each.name} [{each.of_class}]"
        parts[FORWARD][name] += each.exact_own_ns / n
        parts[BACKWARD][name] += each.exact_own_backward_ns / n
        parts[CPU][name] += each.own_weight_ns / n
    for row in phase_functions(profile):
        name = labels[row.frame].partition(" (")[0]
        if row.phase not in (FORWARD, BACKWARD) or row.phase not in parts:
            parts[row.phase][name] += row.total_ns / n
        if row.phase != FORWARD or not has_modules:
            parts[CPU][name] += (row.cpu_ns or 0) / n
    return {phase: dict(each) for phase, each in parts.items()}


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
            all(run.trains for run in (*before, *after)),
            compared(lambda run: run.medians, name),
            compared(lambda run: run.means, name),
        )
        for name in names
    ]
    for row in changes:
        row.parts = _changed_parts(row, before, after)
    for each, found in zip(changes, _found(each.median for each in changes), strict=True):
        each.median_differs = found
    for each, found in zip(changes, _found(each.mean for each in changes), strict=True):
        each.mean_differs = found
    return changes


def _changed_parts(
    row: StepChange, before: Sequence[StepFigures], after: Sequence[StepFigures]
) -> list[PartChange]:
    """Return the parts that explain most of the change."""
    more_ns = row.mean.after - row.mean.before

    def times(side: Sequence[StepFigures]) -> Counter[str]:
        found = Counter[str]()
        for run in side:
            for phase, of_phase in run.parts.items():
                if row.name == phase or (row.name == TOTAL and phase != CPU):
                    for name, ns in of_phase.items():
                        found[name] += round(ns / len(side))
        return found

    one, other = times(before), times(after)
    parts = [PartChange(name, one[name], other[name]) for name in {**one, **other}]
    parts = [each for each in parts if each.more_ns * more_ns >= LEAST_PART * more_ns**2 > 0]
    return sorted(parts, key=lambda each: -abs(each.more_ns))[:MOST_PARTS]


def _by_runs(series: Sequence[Mean]) -> Mean:
    return of_runs([each.value for each in series], [each.variance for each in series])


def _found(changes: Iterable[Change]) -> list[bool | None]:
    """Return which are more than noise; None: it is not known."""
    made = list(changes)
    known = [each for each in made if each.low > -inf]
    verdicts = dict(zip(map(id, known), discoveries([each.p for each in known]), strict=True))
    return [verdicts.get(id(each)) for each in made]
