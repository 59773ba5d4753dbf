"""The page of runs that are compared: their call paths as one tree, and what differs.

Its script and style are those of the page of a profile; web/src/comparison.ts reads it.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Any

from pyhybrid import __version__
from pyhybrid.exporters.page import Columns, document, steps
from pyhybrid.exporters.page.tree import KINDS, Strings
from pyhybrid.report.comparison import facts
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.views.comparison.compared_paths import ComparedPaths
from pyhybrid.views.comparison.function_figures import Function
from pyhybrid.views.comparison.run_comparison import Comparison, FunctionChange
from pyhybrid.views.comparison.significance import RUN_TO_RUN, Change
from pyhybrid.views.comparison.step_changes import StepChange


def comparison_page(comparison: Comparison, paths: ComparedPaths) -> str:
    """The file's text.  The runs of `paths` are those before, then those after."""
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
    meta = {
        "format": 1,
        "comparison": {
            "version": __version__,
            "facts": facts(comparison),
            "n_before": len(comparison.before.files),
            "periods_ns": [run.period_ns for run in paths.runs],
            "by_runs": comparison.by_runs,
            "run_to_run": RUN_TO_RUN,
            "functions": [_row(each, numbers[each.function]) for each in shown],
            "n_left_out": len(comparison.functions) - len(shown),
            "n_steps": comparison.steps and comparison.steps[0].n_steps,
            "steps": [_step_row(each) for each in comparison.steps],
        },
    }
    return document("pyhybrid diff", meta, columns)


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


def _row(each: FunctionChange, number: int) -> dict[str, Any]:
    return {
        "frame": number,
        "total": each.total and _change(each.total),
        "own": each.own_difference_ns,
        "differs": each.differs,
        "calls": each.calls and [sum(side) / len(side) for side in each.calls],
        "calls_differ": each.calls_differ,
        "per_call": each.per_call and [each.per_call.before, each.per_call.after],
    }


def _step_row(each: StepChange) -> dict[str, Any]:
    return {
        "name": each.name,
        "median": _change(each.median),
        "median_differs": each.median_differs,
        "mean": _change(each.mean),
        "mean_differs": each.mean_differs,
    }


def _change(change: Change) -> dict[str, float | None]:
    known = {name: getattr(change, name) for name in ("before", "after", "low", "high", "visible")}
    return {name: value if isfinite(value) else None for name, value in known.items()}
