"""A comparison of runs, for people: text for a terminal, or Markdown.

Both are made of the same tables.  What is within noise is grey, and under a heading of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any, TextIO

from pyhybrid.report.table import Column, Table, plain, plain_markdown, text
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, note_lines, show
from pyhybrid.views.diff.change_limits import EXCEEDED, UNSURE, Verdict
from pyhybrid.views.diff.runs import Comparison, FunctionChange, Side
from pyhybrid.views.diff.significance import RUN_TO_RUN, Change
from pyhybrid.views.diff.step_changes import LEAST_STEPS, StepChange
from pyhybrid.views.labels import short_time

N_WITHIN = 5  # functions that do not differ


def _head(side: Side) -> str:
    return f"{side.command} ({len(side.files)} run{'s' * (len(side.files) > 1)})"


def facts(comparison: Comparison) -> list[tuple[str, str, bool]]:
    """Return the facts of the whole: name, text, whether it needs care."""
    before, after = comparison.before, comparison.after
    found = [("before", _head(before), False), ("after", _head(after), False)]
    times = [
        f"{name} {time_text(one)} -> {time_text(other)} ({relative_text(one, other)})"
        for name, one, other in (
            ("wall", before.wall_ns, after.wall_ns),
            ("CPU", before.cpu_ns, after.cpu_ns),
        )
        if one is not None and other is not None
    ]
    found.append(("time", ", ".join(times) or "?", False))
    if change := comparison.all:
        value = f"{before.samples:,} -> {after.samples:,}; their time {change_text(change)}"
        found.append(("samples", f"{value} ({interval_text(change)})", False))
        if before.spinning_ns or after.spinning_ns:
            one, other = time_text(before.spinning_ns), time_text(after.spinning_ns)
            value = f"{one} -> {other} in which threads of a pool spun for one another: it is left"
            value += " out of sampled times"
            found.append(("spinning", value, False))
        found.append(("errors", _errors(comparison), False))
        least = f"{change.visible:.1%} of all sampled time" if isfinite(change.visible) else "none"
        value = f"the smallest change that these files can show: {least}; of functions: see below"
        found.append(("visible", value, False))
    return found + [("note", note, True) for note in comparison.notes]


def _errors(comparison: Comparison) -> str:
    if comparison.by_runs:
        return "as the runs differ (Welch's t test); Benjamini and Hochberg's rule at 5 %"
    return (
        f"of counting samples, and {RUN_TO_RUN:.1%} from run to run, as on a quiet machine (three "
        "runs a side tell how it was here); Benjamini and Hochberg's rule at 5 %"
    )


def verdict_text(verdict: Verdict) -> str:
    """Return `exceeded: total(f) > +5%: +21.2% (+15.1% to +27.9%)`."""
    value = f"{verdict.state}: {verdict.limit}"
    if verdict.change:
        value += f": {change_text(verdict.change)} ({interval_text(verdict.change)})"
    return f"{value}: {verdict.why}" if verdict.why else value


def print_comparison(
    comparison: Comparison, verdicts: list[Verdict], n: int, stream: TextIO
) -> None:
    """Print it as text."""
    show(lambda columns: _lines(comparison, verdicts, n, columns), stream)


def _lines(comparison: Comparison, verdicts: list[Verdict], n: int, columns: int) -> list[Line]:
    lines: list[Line] = [[("pyhybrid diff", STRONG)]]
    for name, value, warn in facts(comparison):
        lines += note_lines(name, value, columns, "" if not warn else WARN)
    for title, table in sections(comparison, n):
        lines += [[("", "")], [(title, STRONG)], *(table.lines(columns) if table.rows else ())]
    lines += [[("", "")]] if verdicts else []
    for verdict in verdicts:
        style = WARN if verdict.state in (EXCEEDED, UNSURE) else ""
        lines += note_lines("limit", verdict_text(verdict), columns, style)
    return lines


def markdown(comparison: Comparison, verdicts: list[Verdict], n: int) -> Iterator[str]:
    """Yield it as Markdown, for a comment in continuous integration."""
    yield "### pyhybrid diff"
    yield ""
    for verdict in verdicts:
        yield f"- **{plain_markdown(verdict_text(verdict))}**"
    for name, value, _ in facts(comparison):
        yield f"- {name}: {plain_markdown(value)}"
    for title, table in sections(comparison, n):
        yield from ("", f"**{plain_markdown(title)}**")
        if table.rows:
            yield from ("", *table.markdown())


def comparison_json(comparison: Comparison, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return it as plain values: the keys are Comparison's, and `limits`."""
    return {**plain(comparison), "limits": plain(verdicts)}


# --- the tables -----------------------------------------------------------------------------------


def sections(comparison: Comparison, n: int) -> Iterator[tuple[str, Table]]:
    """Yield the tables with their headings, of at most `n` rows each."""
    calls = [each for each in comparison.functions if each.calls]
    if calls:
        yield _calls(calls, n)
    timed = [each for each in comparison.functions if each.per_call]
    if timed:
        yield _times(timed, comparison.by_runs, n)
    if comparison.steps:
        yield from _steps(comparison.steps)
    if comparison.tested:
        yield from _sampled(comparison, n)


def _table(
    columns: Sequence[Column], rows: Sequence[Any], n: int, style: Callable[[Any], str]
) -> Table:
    """Make a table of the first `n` rows, each in one style."""
    rest = f"and {len(rows) - n:,} more (-n)" if len(rows) > n else ""
    return Table(columns, rows[:n], lambda row: (style(row), style(row)), rest=rest)


def _calls(counted: list[FunctionChange], n: int) -> tuple[str, Table]:
    changed = [each for each in counted if each.calls_differ]
    changed.sort(key=lambda each: -abs(sum(_calls_of(each, 1)) - sum(_calls_of(each, 0))))
    title = f"calls: {len(changed):,} of {len(counted):,} functions are called more or less often"
    new = sum(not any(_calls_of(each, 0)) for each in changed)
    gone = sum(not any(_calls_of(each, 1)) for each in changed)
    title += f", {new:,} new" * (new > 0) + f", {gone:,} gone" * (gone > 0)
    return title, _table(_CALLS, changed, n, lambda each: "")


def _calls_of(each: FunctionChange, side: int) -> list[int]:
    return each.calls[side] if each.calls else []


def _mean_calls(each: FunctionChange) -> list[float]:
    return [sum(side) / len(side) for side in each.calls or ([0], [0])]


def _times(timed: list[FunctionChange], by_runs: bool, n: int) -> tuple[str, Table]:
    def weight(each: FunctionChange) -> float:
        change = each.per_call
        return abs(change.after - change.before) * sum(_calls_of(each, 1)) if change else 0

    timed = sorted(timed, key=lambda each: (not each.per_call_differs, -weight(each)))
    differing = sum(each.per_call_differs or False for each in timed)
    title = f"{differing:,} of {len(timed):,} differ by more than noise"
    if not by_runs:
        title = "one run a side does not tell what is noise: three do"
    before, after, _, interval, _ = _change("per_call")
    change = Column("change", 0, lambda each: each.per_call.change, percent_text)
    columns = [before, after, change, *([interval] if by_runs else []), _FUNCTION]
    table = _table(columns, timed, n, lambda each: "" if each.per_call_differs else DIM)
    return f"exact time of a call: {title}", table


def _steps(changes: list[StepChange]) -> Iterator[tuple[str, Table]]:
    """Yield the median and the mean; a phase that takes nothing in most steps has no median."""
    before, after = (sum(side) / len(side) for side in changes[0].n_steps)
    title = f"steps of a training ({number_text(before)} -> {number_text(after)})"
    for name in ("median", "mean"):
        rows = [e for e in changes if getattr(e, name).before or getattr(e, name).after]
        differs = {each.name: getattr(each, f"{name}_differs") for each in rows}
        value = f"{sum(map(bool, differs.values()))} of {len(rows)} differ by more than noise"
        if all(each is None for each in differs.values()):
            value = f"fewer than {LEAST_STEPS} do not tell what is noise"
        columns = [*_change(name), text("of a step", "name")]
        differ = [step for step, found in differs.items() if found]
        table = _table(columns, rows, len(rows), partial(_step_style, differ))
        yield f"{title}, {name} time: {value}", table


def _step_style(differ: list[str], each: StepChange) -> str:
    return STRONG if each.name in differ else DIM


def _sampled(comparison: Comparison, n: int) -> Iterator[tuple[str, Table]]:
    tested, columns = comparison.tested, [*_change("total"), _FUNCTION]
    differing = [each for each in tested if each.differs]
    differing.sort(key=lambda each: -abs(each.own_difference_ns))
    title = f"{len(differing):,} of {len(tested):,} functions differ by more than noise"
    yield f"sampled time: {title}", _table(columns, differing, n, lambda each: STRONG)
    rest = [each for each in tested if not each.differs]
    rest.sort(key=lambda each: -(each.total.after if each.total else 0))
    if rest:
        table = _table(columns, rest, min(n, N_WITHIN), lambda each: DIM)
        yield "sampled time, within noise", table


def _change(name: str) -> tuple[Column, ...]:
    """Return the columns of a change with its errors; `name`: the row's attribute for it."""

    def visible(row: Any) -> float | None:
        seen: float = getattr(row, name).visible
        return seen if isfinite(seen) else None

    return (
        Column("before", 0, lambda row: getattr(row, name).before, time_text),
        Column("after", 0, lambda row: getattr(row, name).after, time_text),
        Column("change", 0, name, change_text),
        Column("95 % interval", 0, name, interval_text),
        Column("visible", 0, visible, partial(percent_text, sign=False)),
    )


# --- changes as text ------------------------------------------------------------------------------


def number_text(n: float) -> str:
    return f"{n:,.0f}" if n == round(n) else f"{n:,.1f}"


def time_text(ns: float) -> str:
    return short_time(round(ns)) if ns else "0"


def relative_text(before: float, after: float) -> str:
    if not before or not after:
        return "new" if after else "gone"
    return percent_text(after / before - 1)


def change_text(change: Change) -> str:
    return relative_text(change.before, change.after)


def percent_text(share: float, sign: bool = True) -> str:
    if share >= 10:
        return f"x {share + 1:.3g}"
    return f"{share:+.1%}" if sign else f"{share:.1%}"


def interval_text(change: Change) -> str:
    low = percent_text(change.low) if isfinite(change.low) else "?"
    return f"{low} to {percent_text(change.high) if isfinite(change.high) else '?'}"


_FUNCTION = text("function", lambda each: each.function.label)
_CALLS = (
    Column("before", 0, lambda each: _mean_calls(each)[0], number_text),
    Column("after", 0, lambda each: _mean_calls(each)[1], number_text),
    Column("change", 0, _mean_calls, lambda sides: relative_text(*sides)),
    _FUNCTION,
)
