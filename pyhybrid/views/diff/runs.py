"""Two groups of runs of one program, compared: calls, times per call, sampled time, steps.

Calls are exact.  Times have errors (significance.py): with fewer than three runs a side that of
counting samples, with more how the runs themselves differ.  Whether a function's sampled time
differs by more than noise its share of the run tells (shares.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import isfinite

from pyhybrid.base.files import damage_in
from pyhybrid.base.structs import Struct, made
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.imports import summed_functions
from pyhybrid.views.diff.compared_paths import ComparedPaths
from pyhybrid.views.diff.function_figures import Figures, Function, Sampled, run_figures
from pyhybrid.views.diff.same_functions import SameFunctions
from pyhybrid.views.diff.shares import LEAST_SAMPLES, Shares
from pyhybrid.views.diff.significance import (
    FEW_RUNS,
    Change,
    Mean,
    change,
    discoveries,
    of_counts,
    of_runs,
    without_error,
)
from pyhybrid.views.diff.step_changes import StepChange, step_changes, step_figures

# Of a function, for its time to be compared: its share of all, and LEAST_SAMPLES a run.  The more
# functions are compared, the larger a change must be to stand out.
LEAST_SHARE = 0.005
LEAST_NS = 1_000_000  # of a function's exact time in a run, and that share of the run's time


class Side(Record):
    """Hold the runs before, or after."""

    files: list[str]
    command: str
    wall_ns: float | None  # means
    cpu_ns: float | None
    spinning_ns: float  # in which threads of a pool spun: left out of all other times
    samples: int  # together


class FunctionChange(Struct):
    """Hold a function's change; what is not known is None.  Times are means over runs, in ns.

    `share` is that of its time over the rest of the run's; None: there is hardly any rest.
    `differs`: its change is more than noise, as far as all functions' changes together show; None:
    not compared (too few samples, no rest, or the kernel's in so few runs).  `calls_differ`: not as
    often in each run.
    """

    function: Function
    calls: tuple[list[int], list[int]] | None = None
    calls_differ: bool = False
    per_call: Change | None = None
    per_call_differs: bool | None = None  # None: one run does not show it
    share: Change | None = None
    total: Change | None = None
    self: Change | None = None
    below: Change | None = None
    samples: int = 0
    differs: bool | None = None

    @property
    def own_difference_ns(self) -> float:
        """Return by how much its own time changed: with native code, of Python functions."""
        own = self.below if self.function.kind == "python" else self.self
        return own.after - own.before if own else 0


class Comparison(Struct):
    """Hold what changed; `all` is the whole program's sampled time, `steps` are of a training.

    `left_out`: functions that changed themselves, and so are in no rest of a run (shares.py).
    """

    before: Side
    after: Side
    notes: list[str]  # what else differs
    by_runs: bool  # the errors come from the runs themselves
    all: Change | None
    functions: list[FunctionChange] = made(list)
    steps: list[StepChange] = made(list)
    left_out: list[Function] = made(list)

    @property
    def tested(self) -> list[FunctionChange]:
        """Return those whose sampled time was compared."""
        return [each for each in self.functions if each.differs is not None]


class Runs:
    """Read profiles whose functions are to be compared; `paths` gets their call paths."""

    def __init__(
        self, open_file: Callable[[str], Profile], paths: ComparedPaths | None = None
    ) -> None:
        self._open, self._paths, self._same = open_file, paths, SameFunctions()

    def read(self, path: str) -> Run:
        """Read a profile.  Raises PyhybridError."""
        with self._open(path) as profile, damage_in(path):
            return Run(profile, self._same, self._paths)


def compare(
    before: Sequence[str],
    after: Sequence[str],
    open_file: Callable[[str], Profile],
    paths: ComparedPaths | None = None,
) -> Comparison:
    """Compare the profiles at these paths; `paths` gets their call paths.  Raises PyhybridError."""
    runs = Runs(open_file, paths)
    return compared([*map(runs.read, before)], [*map(runs.read, after)])


class Run:
    """Hold what is compared of one profile."""

    def __init__(self, profile: Profile, same: SameFunctions, paths: ComparedPaths | None) -> None:
        figures, process = run_figures(profile), profile.process
        names = same.names(figures.functions)
        if paths is not None:
            paths.add(profile, names)
        threads = profile.threads.values()
        end_ns = process.end_ns or max((t.last_ns or 0 for t in threads), default=0)
        self.file, self.facts = profile.path, _facts(profile)
        self.wall_ns = end_ns - process.start_ns if end_ns and process.start_ns else None
        self.cpu_ns = process.cpu_ns or sum(t.cpu_ns or 0 for t in threads) or None
        self.traced, self.all, self.period_ns = figures.traced, figures.all, profile.period_ns
        self.spinning_ns = figures.spinning_ns
        self.steps = step_figures(profile)
        self.functions = {names[each]: of_it for each, of_it in figures.functions.items()}
        self.within = {(names[a], names[b]): ns for (a, b), ns in figures.within.items()}
        self._absent = figures.absent

    def of(self, function: Function) -> Figures:
        """Return what the run has of any function."""
        return self.functions.get(function, self._absent)

    def time_of_call(self, function: Function) -> float | None:
        """Return the exact time of one, in ns; None: not known, or it takes little in all."""
        figures = self.of(function)
        if not figures.calls or not figures.time_ns:
            return None
        least_ns = max(LEAST_NS, (self.wall_ns or 0) * LEAST_SHARE)
        return figures.time_ns / figures.calls if figures.time_ns >= least_ns else None


def _facts(profile: Profile) -> dict[str, str]:
    """Return what should be the same in all runs."""
    meta = profile.meta
    chosen = [f"-t {each}" for each in meta.get("functions") or ()]
    chosen += ["--c-calls"] if meta.get("c_calls") else []
    chosen += ["--tasks"] if meta.get("tasks") else []
    chosen += ["imports by module"] if summed_functions(profile) else []
    return {
        "command": _command(profile.process.argv),
        "mode": str(meta.get("mode") or "sample"),
        "clock": f"{meta.get('clock')} time",
        "rate": f"{meta.get('hz')} Hz",
        "counted": " ".join(chosen) or "all functions",
        "Python": str(meta.get("python") or "?"),
        "processor": f"{meta.get('n_cpus')} x {meta.get('cpu') or '?'}",
        "pyhybrid": str(meta.get("version") or "?"),
        "end": "in order" if meta.get("complete") else "killed",
    }


def _command(argv: list[str]) -> str:
    """Return the command line, absolute paths by their last part: folders may differ."""
    words = [os.path.basename(word) if word.startswith("/") else word for word in argv]
    return " ".join(words) or "?"


def compared(before: Sequence[Run], after: Sequence[Run]) -> Comparison:
    """Compare runs that were read together."""
    by_runs = min(len(before), len(after)) >= FEW_RUNS
    runs = [*before, *after]
    times = _Compared(before, after, of_runs if by_runs else of_counts)
    order = dict.fromkeys(function for run in runs for function in run.functions)
    functions = [times.function(each) for each in order]
    is_sampled = all(run.all.samples for run in runs)
    shares = Shares(before, after, [each.function for each in functions if each.total])
    for each in functions:
        each.share = shares.changes.get(each.function)
    # What the kernel does is more about the machine.
    _judge([each for each in functions if by_runs or each.function.kind != "kernel"])
    return Comparison(
        _side(before),
        _side(after),
        _notes(before, after),
        by_runs,
        times.sampled(lambda run: run.all.total) if is_sampled else None,
        functions,
        _steps(before, after),
        shares.left_out,
    )


def _steps(before: Sequence[Run], after: Sequence[Run]) -> list[StepChange]:
    """Compare the steps, where all runs have some."""
    sides = [[run.steps for run in runs if run.steps] for runs in (before, after)]
    return step_changes(*sides) if [*map(len, sides)] == [len(before), len(after)] else []


class _Compared:
    """Make changes of what the runs have."""

    def __init__(
        self,
        before: Sequence[Run],
        after: Sequence[Run],
        mean: Callable[[Sequence[float], Sequence[float]], Mean],
    ) -> None:
        self._sides, self._mean = (before, after), mean
        runs = [*before, *after]
        self._is_traced = all(run.traced for run in runs)
        n = sum(run.all.samples for run in runs)
        self._least = max(LEAST_SAMPLES * min(len(before), len(after)), round(n * LEAST_SHARE))

    def sampled(self, of: Callable[[Run], Sampled]) -> Change:
        """Return a sampled time's change."""
        return change(*(self._mean(*zip(*map(of, runs), strict=True)) for runs in self._sides))

    def function(self, function: Function) -> FunctionChange:
        """Return what is known of a function's change; not yet what differs by more than noise."""
        before, after = ([run.of(function) for run in runs] for runs in self._sides)
        made = FunctionChange(function, samples=sum(each.samples for each in before + after))
        if made.samples >= self._least:
            made.total = self.sampled(lambda run: run.of(function).total)
            made.self = self.sampled(lambda run: run.of(function).self)
            if function.kind == "python":
                made.below = self.sampled(lambda run: run.of(function).below)
        if self._is_traced and any(each.calls is not None for each in before + after):
            calls = made.calls = [e.calls or 0 for e in before], [e.calls or 0 for e in after]
            made.calls_differ = max(calls[0]) < min(calls[1]) or max(calls[1]) < min(calls[0])
            made.per_call = self._per_call(function)
        return made

    def _per_call(self, function: Function) -> Change | None:
        sides = []
        for runs in self._sides:
            times = [run.time_of_call(function) for run in runs]
            known = [each for each in times if each is not None]
            if len(known) < len(times):
                return None
            sides.append(known)
        one, other = sides
        if self._mean is of_runs:
            return change(*(of_runs(times, [0] * len(times)) for times in (one, other)))
        return without_error(sum(one) / len(one), sum(other) / len(other))


def _judge(functions: list[FunctionChange]) -> None:
    """Mark which changes are more than noise, in view of how many there are.

    Functions of Python and of native code are judged apart: there are many of the latter, of which
    one below the other has the same samples.
    """
    for is_native in (False, True):
        shares = [
            (each, each.share.p)
            for each in functions
            if each.share and (each.function.kind in ("native", "kernel")) == is_native
        ]
        for (each, _), found in zip(shares, discoveries([p for _, p in shares]), strict=True):
            each.differs = found
    times = [(e, e.per_call.p) for e in functions if e.per_call and isfinite(e.per_call.low)]
    for (each, _), found in zip(times, discoveries([p for _, p in times]), strict=True):
        each.per_call_differs = found


def _side(runs: Sequence[Run]) -> Side:
    return Side(
        [run.file for run in runs],
        runs[0].facts["command"],
        _mean([run.wall_ns for run in runs]),
        _mean([run.cpu_ns for run in runs]),
        sum(run.spinning_ns for run in runs) / len(runs),
        sum(run.all.samples for run in runs),
    )


def _mean(values: list[int | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _notes(before: Sequence[Run], after: Sequence[Run]) -> list[str]:
    """Return in what else the runs differ."""
    notes = []
    for fact in before[0].facts:
        one, other = (sorted({run.facts[fact] for run in runs}) for runs in (before, after))
        if one != other:
            notes.append(f"not the same {fact}: {', '.join(one)} before, {', '.join(other)} after")
        elif len(one) > 1:
            notes.append(f"not the same {fact} in all runs: {', '.join(one)}")
    if not all(run.traced for run in [*before, *after]):
        notes.append("calls are not compared: they were not counted in all runs")
    return notes
