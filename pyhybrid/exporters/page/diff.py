"""The page of runs that are compared: their call paths as one tree, and what differs.

Its script and style are those of the page of a profile; web/src/diff.ts reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhybrid import __version__
from pyhybrid.exporters.page import Columns, document, steps
from pyhybrid.exporters.page.tree import KINDS, Strings
from pyhybrid.report.diff import facts
from pyhybrid.report.table import plain
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.tables.schema import Record
from pyhybrid.views.diff.compared_paths import ComparedPaths
from pyhybrid.views.diff.function_figures import Function
from pyhybrid.views.diff.runs import Comparison, FunctionChange
from pyhybrid.views.diff.significance import RUN_TO_RUN, Change
from pyhybrid.views.diff.step_changes import StepChange


class ShownChange(Record):
    """Hold nanoseconds, or ratios, and the relative change's 95 % interval; null: not known."""

    before: float
    after: float
    low: float | None
    high: float | None
    visible: float | None


class ComparedStep(Record):
    """Hold a training's steps: step_changes.StepChange has what each is."""

    name: str
    median: ShownChange
    median_differs: bool | None
    mean: ShownChange
    mean_differs: bool | None


class ComparedFunction(Record):
    """Hold what is known of a function: runs.FunctionChange has what each is."""

    frame: int
    total: ShownChange | None
    share: ShownChange | None  # of its time over the rest's of the run
    own: float  # how its own time changed, with native code
    differs: bool | None  # null: not compared
    calls: tuple[float, float] | None  # means of the runs
    calls_differ: bool
    per_call: tuple[float, float] | None


class ComparisonFacts(Record):
    """Hold what the runs are, and what differs."""

    version: str
    facts: list[tuple[str, str, bool]]  # name, text, and whether it needs care
    n_before: int
    periods_ns: list[int]
    by_runs: bool
    run_to_run: float
    functions: list[ComparedFunction]
    n_left_out: int
    n_steps: tuple[list[int], list[int]] | None  # of each run
    steps: list[ComparedStep]


class ComparisonMeta(Record):
    """Hold what the page knows beside its columns."""

    format: int
    comparison: ComparisonFacts


def comparison_page(comparison: Comparison, paths: ComparedPaths) -> str:
    """Return the file's text.  The runs of `paths` are those before, then those after."""
    shown = [each for each in comparison.functions if _is_shown(each)]
    numbers = {
        function: number
        for number, function in enumerate(
            dict.fromkeys([*paths.function, *(each.function for each in shown)])
        )
    }
    strings, columns = Strings(), Columns()
    _add_functions(columns, strings, numbers)
    up = (path - parent for path, parent in enumerate(paths.parent))
    columns.add("node.up", up)
    columns.add("node.frame", (numbers[each] for each in paths.function))
    for i, run in enumerate(paths.runs):
        rows = sorted(run.figures.items())
        columns.add(f"run.{i}.node", steps(path for path, _ in rows))
        columns.add(f"run.{i}.weight", (weight for _, (weight, _) in rows))
        columns.add(f"run.{i}.variance", (variance for _, (_, variance) in rows))
    columns.add_text("strings", strings)
    found = ComparisonFacts(
        version=__version__,
        facts=facts(comparison),
        n_before=len(comparison.before.files),
        periods_ns=[run.period_ns for run in paths.runs],
        by_runs=comparison.by_runs,
        run_to_run=RUN_TO_RUN,
        functions=[_function(each, numbers[each.function]) for each in shown],
        n_left_out=len(comparison.functions) - len(shown),
        n_steps=comparison.steps[0].n_steps if comparison.steps else None,
        steps=[_step(each) for each in comparison.steps],
    )
    return document("pyhybrid diff", plain(ComparisonMeta(1, found)), columns)


def _is_shown(each: FunctionChange) -> bool:
    return each.total is not None or each.calls_differ or each.per_call is not None


def _add_functions(columns: Columns, strings: Strings, functions: Iterable[Function]) -> None:
    text = strings.number
    rows = []
    for kind, name, place in functions:
        is_c = kind == "native" and is_interpreter(place)
        number = KINDS.index("interpreter" if is_c else kind) if kind else 0
        rows.append((text(name), text(name), number, 0, text(place), text(place), 0, 0))
    names = ("name", "short", "kind", "flags", "place", "file", "line", "declared")
    for column, values in zip(names, zip(*rows, strict=True), strict=True):
        columns.add(f"frame.{column}", values)


def _function(each: FunctionChange, number: int) -> ComparedFunction:
    calls = [sum(side) / len(side) for side in each.calls or ()]
    return ComparedFunction(
        frame=number,
        total=_change(each.total) if each.total else None,
        share=_change(each.share) if each.share else None,
        own=each.own_difference_ns,
        differs=each.differs,
        calls=(calls[0], calls[1]) if calls else None,
        calls_differ=each.calls_differ,
        per_call=(each.per_call.before, each.per_call.after) if each.per_call else None,
    )


def _step(each: StepChange) -> ComparedStep:
    median, mean = _change(each.median), _change(each.mean)
    return ComparedStep(each.name, median, each.median_differs, mean, each.mean_differs)


def _change(change: Change) -> ShownChange:
    return ShownChange(*(getattr(change, name) for name in ShownChange._fields))
