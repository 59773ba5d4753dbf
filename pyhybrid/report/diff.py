"""A comparison of runs, for people: text for a terminal, or Markdown.

Both are made of the same tables.  What is within noise is under a heading of its own: grey, or
folded up.  What a limit is on is always shown, and no table contradicts a limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import compress
from math import inf, isfinite
from operator import not_
from typing import Any, NamedTuple, TextIO

from pyhybrid.report.table import Column, Table, plain, plain_markdown, text
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, note_lines, show
from pyhybrid.views.diff.change_limits import EXCEEDED, UNSURE, WITHIN, WRONG, Verdict
from pyhybrid.views.diff.runs import Comparison, FunctionChange, Side
from pyhybrid.views.diff.significance import RUN_TO_RUN, Change
from pyhybrid.views.diff.step_changes import LEAST_STEPS, StepChange
from pyhybrid.views.labels import short_time
from pyhybrid.views.training.steps import kind_text

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
        if comparison.left_out:
            names = ", ".join(each.label for each in comparison.left_out)
            found.append(("rest", f"of a run: without {names}, whose own time changed", False))
        least = f"{change.visible:.1%} of all sampled time" if isfinite(change.visible) else "none"
        value = f"the smallest change that these files can show: {least}; of functions: see below"
        found.append(("visible", value, False))
    return found + [("note", note, True) for note in comparison.notes]


def _errors(comparison: Comparison) -> str:
    value = "of functions against the rest of their run, so what slows all of it is in `samples`"
    if comparison.by_runs:
        return f"{value}; as the runs differ; Benjamini and Hochberg's rule at 5 %"
    return (
        f"{value}; of counting samples, and {RUN_TO_RUN:.1%} from run to run, as on a quiet "
        "machine (three runs a side show how it was here); Benjamini and Hochberg's rule at 5 %"
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
    for each in sections(comparison, verdicts, n):
        rows = each.table.lines(columns) if each.table.rows else ()
        lines += [[("", "")], [(each.title, STRONG)], *rows]
    lines += [[("", "")]] if verdicts else []
    for verdict in verdicts:
        style = WARN if verdict.state != WITHIN else ""
        lines += note_lines("limit", verdict_text(verdict), columns, style)
    return lines


_ICONS = {WRONG: "\N{WARNING SIGN}", EXCEEDED: "\N{CROSS MARK}"}
_ICONS |= {UNSURE: "\N{WHITE QUESTION MARK ORNAMENT}", WITHIN: "\N{WHITE HEAVY CHECK MARK}"}


def _head_of(verdicts: list[Verdict]) -> str:
    """Return the worst of them in a few words."""
    for state in _ICONS:
        if n := sum(verdict.state == state for verdict in verdicts):
            limits = f"{len(verdicts)} limit{'s' * (len(verdicts) > 1)}"
            return f"{_ICONS[state]} {state}: {n} of {limits} (pyhybrid diff)"
    return "pyhybrid diff"


def markdown(comparison: Comparison, verdicts: list[Verdict], n: int) -> Iterator[str]:
    """Yield it as Markdown, for a comment in continuous integration."""
    yield f"### {_head_of(verdicts)}"
    yield ""
    for verdict in verdicts:
        yield f"- {_ICONS[verdict.state]} **{plain_markdown(verdict_text(verdict))}**"
    for name, value, _ in facts(comparison):
        yield f"- {name}: {plain_markdown(value)}"
    for title, table, is_noise in sections(comparison, verdicts, n):
        title = plain_markdown(title)
        if is_noise:
            yield from ("", f"<details><summary>{title}</summary>", "", *table.markdown())
            yield from ("", "</details>")
        else:
            yield from ("", f"**{title}**")
            yield from ("", *table.markdown()) if table.rows else ()


def comparison_json(comparison: Comparison, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return it as plain values: the keys are Comparison's, and `limits`."""
    return {**plain(comparison), "limits": plain(verdicts)}


# --- the tables -----------------------------------------------------------------------------------


class Section(NamedTuple):
    """Hold a table with its heading; `is_noise`: of what does not differ by more than that."""

    title: str
    table: Table
    is_noise: bool = False


class _Limited:
    """Tell what limits are on: it is shown, and where one is exceeded, it differs."""

    def __init__(self, verdicts: Iterable[Verdict], *metrics: str) -> None:
        self._verdicts = [each for each in verdicts if each.metric in metrics]

    def has(self, row: Any) -> bool:
        """Is a limit on the row?"""
        return any(self._states(row))

    def exceeded(self, row: Any) -> bool:
        """Is one exceeded?"""
        return EXCEEDED in self._states(row)

    def _states(self, row: FunctionChange | StepChange) -> list[str]:
        if isinstance(row, StepChange):
            return [each.state for each in self._verdicts if each.name == row.name]
        return [each.state for each in self._verdicts if each.function == row.function]


def sections(comparison: Comparison, verdicts: list[Verdict], n: int) -> Iterator[Section]:
    """Yield the tables with their headings, of at most `n` rows each, and what limits are on."""
    calls = [each for each in comparison.functions if each.calls]
    if calls:
        yield from _calls(calls, _Limited(verdicts, "calls"), n)
    timed = [each for each in comparison.functions if each.per_call]
    if timed:
        yield from _times(timed, _Limited(verdicts, "time"), comparison.by_runs, n)
    if comparison.steps:
        yield from _steps(comparison.steps, verdicts)
    limited = _Limited(verdicts, "share", "total", "self", "below")
    sampled = [e for e in comparison.functions if e.differs is not None]
    sampled += [e for e in comparison.functions if e.differs is None and e.total and limited.has(e)]
    if sampled:
        yield from _sampled(sampled, limited, n)


def _table(
    columns: Sequence[Column], rows: Sequence[Any], limited: _Limited, n: int, style: str
) -> Table:
    """Make a table of the first `n` rows, and of those with limits."""
    shown = [*rows[:n], *filter(limited.has, rows[n:])]
    rest = f"and {len(rows) - len(shown):,} more (-n)" if len(rows) > len(shown) else ""
    return Table(columns, shown, lambda row: (style, style), rest=rest)


def _calls(counted: list[FunctionChange], limited: _Limited, n: int) -> Iterator[Section]:
    changed = [each for each in counted if each.calls_differ]
    changed.sort(key=lambda each: -abs(sum(_calls_of(each, 1)) - sum(_calls_of(each, 0))))
    title = f"calls: {len(changed):,} of {len(counted):,} functions are called more or less often"
    new = sum(not any(_calls_of(each, 0)) for each in changed)
    gone = sum(not any(_calls_of(each, 1)) for each in changed)
    title += f", {new:,} new" * (new > 0) + f", {gone:,} gone" * (gone > 0)
    yield Section(title, _table(_CALLS, changed, limited, n, ""))
    same = [each for each in counted if not each.calls_differ and limited.has(each)]
    if same:
        yield Section("calls, as often", _table(_CALLS, same, limited, n, DIM), True)


def _calls_of(each: FunctionChange, side: int) -> list[int]:
    return each.calls[side] if each.calls else []


def _mean_calls(each: FunctionChange) -> list[float]:
    return [sum(side) / len(side) for side in each.calls or ([0], [0])]


def _times(
    timed: list[FunctionChange], limited: _Limited, by_runs: bool, n: int
) -> Iterator[Section]:
    def weight(each: FunctionChange) -> float:
        change = each.per_call
        return abs(change.after - change.before) * sum(_calls_of(each, 1)) if change else 0

    timed = sorted(timed, key=lambda each: -weight(each))
    before, after, _, interval, _ = _change("per_call")
    change = Column("change", 0, lambda each: each.per_call.change, percent_text)
    columns = [before, after, change, *([interval] if by_runs else []), _FUNCTION]
    title = "exact time of a call"
    if not by_runs:
        title += ": one run a side does not show what is noise: three do"
        yield Section(title, _table(columns, timed, limited, n, DIM), True)
        return
    differs = [each.per_call_differs for each in timed]
    yield from _both(title, columns, timed, differs, limited, n)


def _both(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Any],
    differs: Sequence[bool | None],
    limited: _Limited,
    n: int,
    n_rest: int = N_WITHIN,
    rest_columns: Sequence[Column] | None = None,
) -> Iterator[Section]:
    """Yield those of the rows that differ, then the others."""
    found = [e or limited.exceeded(row) for row, e in zip(rows, differs, strict=True)]
    differing = [*compress(rows, found)]
    rest = [*compress(rows, map(not_, found))]
    value = f"{title}: {len(differing):,} of {len(rows):,} differ by more than noise"
    yield Section(value, _table(columns, differing, limited, n, STRONG))
    if rest:
        table = _table(rest_columns or columns, rest, limited, min(n, n_rest), DIM)
        yield Section(f"{title}, within noise", table, True)


def _steps(changes: list[StepChange], verdicts: list[Verdict]) -> Iterator[Section]:
    """Yield the median and the mean; a phase that takes nothing in most steps has no median."""
    before, after = (sum(side) / len(side) for side in changes[0].n_steps)
    title = f"steps {kind_text(changes[0].trains)} ({number_text(before)} -> {number_text(after)})"
    for name, metric in (("median", "step"), ("mean", "mean_step")):
        rows = [e for e in changes if getattr(e, name).before or getattr(e, name).after]
        differs = [getattr(each, f"{name}_differs") for each in rows]
        columns = [*_change(name), text("of a step", "name")]
        limited = _Limited(verdicts, metric)
        of_it = f"{title}, {name} time"
        if all(each is None for each in differs):
            of_it += f": fewer than {LEAST_STEPS} do not show what is noise"
            yield Section(of_it, _table(columns, rows, limited, len(rows), DIM), True)
            continue
        with_parts = [*columns[:-1], text("of a step", _with_parts)]
        yield from _both(of_it, with_parts, rows, differs, limited, len(rows), len(rows), columns)


def _with_parts(each: StepChange) -> str:
    """Return `forward: Net.layers.3 [Layer] +1.2 ms`: what of a phase changed most, on average."""
    parts = []
    for part in each.parts:
        sign = "+" if part.more_ns > 0 else "-"
        parts.append(f"{part.part} {sign}{short_time(abs(part.more_ns))}")
    return f"{each.name}: {', '.join(parts)}" if parts else each.name


def _sampled(sampled: list[FunctionChange], limited: _Limited, n: int) -> Iterator[Section]:
    before, after, change, *_ = _change("total")
    _, _, share, interval, visible = _change("share")
    columns = [before, after, change, share._replace(title="vs rest"), interval, visible, _FUNCTION]

    def weight(each: FunctionChange) -> float:
        if each.differs or limited.exceeded(each):
            return abs(each.own_difference_ns)
        return each.total.after if each.total else 0

    rows = sorted(sampled, key=lambda each: -weight(each))
    yield from _both("sampled time", columns, rows, [each.differs for each in rows], limited, n)


def _change(name: str) -> tuple[Column, ...]:
    """Return the columns of a change with its errors; `name`: the row's attribute for it."""

    def of(part: str, row: Any) -> float | None:
        change = getattr(row, name)
        value: float = getattr(change, part) if change else inf
        return value if isfinite(value) else None

    return (
        Column("before", 0, partial(of, "before"), time_text),
        Column("after", 0, partial(of, "after"), time_text),
        Column("change", 0, name, change_text),
        Column("95 % interval", 0, name, interval_text),
        Column("visible", 0, partial(of, "visible"), partial(percent_text, sign=False)),
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
