"""A comparison of runs, for people: text for a terminal, or Markdown.

Both are made of the same sections.  What is within noise is grey, and under a heading of its own.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, TextIO

from pyhybrid.report.ellipsis import middle
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, note_lines, show
from pyhybrid.terminal_text import visible
from pyhybrid.views.change_limits import EXCEEDED, UNSURE, Verdict
from pyhybrid.views.labels import short_time
from pyhybrid.views.run_comparison import Comparison, FunctionChange, Side
from pyhybrid.views.significance import RUN_TO_RUN, Change
from pyhybrid.views.step_changes import LEAST_STEPS, StepChange

N_WITHIN = 5  # functions that do not differ


@dataclass(slots=True)
class Section:
    """A heading, and a table; each row has a style.  The last column is to the left."""

    title: str
    columns: list[str]
    rows: list[tuple[list[str], str]] = field(default_factory=list)


def sections(comparison: Comparison, n: int) -> Iterator[Section]:
    """The tables, of at most `n` rows each."""
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


def _calls(counted: list[FunctionChange], n: int) -> Section:
    changed = [each for each in counted if each.calls_differ]
    changed.sort(key=lambda each: -abs(sum(_calls_of(each, 1)) - sum(_calls_of(each, 0))))
    text = f"{len(changed):,} of {len(counted):,} functions are called more or less often"
    new = sum(not any(_calls_of(each, 0)) for each in changed)
    gone = sum(not any(_calls_of(each, 1)) for each in changed)
    parts = [f"{new:,} new" * (new > 0), f"{gone:,} gone" * (gone > 0)]
    text += "".join(f", {part}" for part in parts if part)
    section = Section(f"calls: {text}", ["before", "after", "change", "function"])
    for each in changed[:n]:
        before, after = (sum(side) / len(side) for side in (each.calls or ([0], [0])))
        cells = [_number(before), _number(after), _relative(before, after)]
        section.rows.append(([*cells, each.function.label], ""))
    return _shortened(section, len(changed))


def _calls_of(each: FunctionChange, side: int) -> list[int]:
    return each.calls[side] if each.calls else []


def _times(timed: list[FunctionChange], by_runs: bool, n: int) -> Section:
    def weight(each: FunctionChange) -> float:
        change = each.per_call
        return abs(change.after - change.before) * sum(_calls_of(each, 1)) if change else 0

    timed = sorted(timed, key=lambda each: (not each.per_call_differs, -weight(each)))
    differing = sum(each.per_call_differs or False for each in timed)
    title = f"{differing:,} of {len(timed):,} differ by more than noise"
    if not by_runs:
        title = "one run a side does not tell what is noise: three do"
    columns = ["before", "after", "change", *(["95 % interval"] if by_runs else []), "function"]
    section = Section(f"exact time of a call: {title}", columns)
    for each in timed[:n]:
        if change := each.per_call:
            cells = [_time(change.before), _time(change.after), _percent(change.change)]
            cells += [_interval(change)] if by_runs else []
            section.rows.append(
                ([*cells, each.function.label], "" if each.per_call_differs else DIM)
            )
    return _shortened(section, len(timed))


def _steps(changes: list[StepChange]) -> Iterator[Section]:
    """The median and the mean; a phase that takes nothing in most steps has no median."""
    before, after = (sum(side) / len(side) for side in changes[0].n_steps)
    title = f"steps of a training ({_number(before)} -> {_number(after)})"
    for name, rows in (
        ("median time", [(each.name, each.median, each.median_differs) for each in changes]),
        ("mean time", [(each.name, each.mean, each.mean_differs) for each in changes]),
    ):
        rows = [row for row in rows if row[1].before or row[1].after]
        differing = sum(differs or False for _, _, differs in rows)
        text = f"{differing} of {len(rows)} differ by more than noise"
        if all(differs is None for *_, differs in rows):
            text = f"fewer than {LEAST_STEPS} do not tell what is noise"
        section = Section(f"{title}, {name}: {text}", [*_WITH_ERRORS[:-1], "of a step"])
        section.rows = [
            ([*_figures(change), step], STRONG if differs else DIM)
            for step, change, differs in rows
        ]
        yield section


_WITH_ERRORS = ["before", "after", "change", "95 % interval", "visible", "function"]


def _sampled(comparison: Comparison, n: int) -> Iterator[Section]:
    tested = comparison.tested
    differing = [each for each in tested if each.differs]
    differing.sort(key=lambda each: -abs(each.own_difference_ns))
    title = f"{len(differing):,} of {len(tested):,} functions differ by more than noise"
    section = Section(f"sampled time: {title}", _WITH_ERRORS)
    section.rows = [(_sampled_row(each), STRONG) for each in differing[:n]]
    yield _shortened(section, len(differing))
    rest = [each for each in tested if not each.differs]
    rest.sort(key=lambda each: -(each.total.after if each.total else 0))
    section = Section("sampled time, within noise", _WITH_ERRORS)
    section.rows = [(_sampled_row(each), DIM) for each in rest[: min(n, N_WITHIN)]]
    if rest:
        yield _shortened(section, len(rest))


def _sampled_row(each: FunctionChange) -> list[str]:
    return [*_figures(each.total), each.function.label] if each.total else []


def _figures(change: Change) -> list[str]:
    """What stands in _WITH_ERRORS, but for the last column."""
    sees = _percent(change.visible, sign=False) if isfinite(change.visible) else ""
    return [_time(change.before), _time(change.after), _change(change), _interval(change), sees]


def _shortened(section: Section, n_all: int) -> Section:
    if n_all > len(section.rows) > 0:
        blank = [""] * (len(section.columns) - 1)
        section.rows.append(([*blank, f"and {n_all - len(section.rows):,} more (-n)"], DIM))
    return section


def _number(n: float) -> str:
    return f"{n:,.0f}" if n == round(n) else f"{n:,.1f}"


def _time(ns: float) -> str:
    return short_time(round(ns)) if ns else "0"


def _relative(before: float, after: float) -> str:
    if not before or not after:
        return "new" if after else "gone"
    return _percent(after / before - 1)


def _change(change: Change) -> str:
    return _relative(change.before, change.after)


def _percent(share: float, sign: bool = True) -> str:
    if share >= 10:
        return f"x {share + 1:.3g}"
    return f"{share:+.1%}" if sign else f"{share:.1%}"


def _interval(change: Change) -> str:
    low = _percent(change.low) if isfinite(change.low) else "?"
    return f"{low} to {_percent(change.high) if isfinite(change.high) else '?'}"


def _head(side: Side) -> str:
    return f"{side.command} ({len(side.files)} run{'s' * (len(side.files) > 1)})"


def facts(comparison: Comparison) -> list[tuple[str, str, bool]]:
    """What is said of the whole: name, text, whether it needs care."""
    before, after = comparison.before, comparison.after
    told = [("before", _head(before), False), ("after", _head(after), False)]
    times = [
        f"{name} {_time(one)} -> {_time(other)} ({_relative(one, other)})"
        for name, one, other in (
            ("wall", before.wall_ns, after.wall_ns),
            ("CPU", before.cpu_ns, after.cpu_ns),
        )
        if one is not None and other is not None
    ]
    told.append(("time", ", ".join(times) or "?", False))
    if change := comparison.all:
        text = f"{before.samples:,} -> {after.samples:,}; their time {_change(change)}"
        told.append(("samples", f"{text} ({_interval(change)})", False))
        if before.spinning_ns or after.spinning_ns:
            text = (
                f"{_time(before.spinning_ns)} -> {_time(after.spinning_ns)} in which threads of a "
            )
            text += "pool spun for one another: it is left out of sampled times"
            told.append(("spinning", text, False))
        told.append(("errors", _errors(comparison), False))
        least = f"{change.visible:.1%} of all sampled time" if isfinite(change.visible) else "none"
        text = f"the smallest change that these files can show: {least}; of functions: see below"
        told.append(("visible", text, False))
    return told + [("note", note, True) for note in comparison.notes]


def _errors(comparison: Comparison) -> str:
    if comparison.by_runs:
        return "as the runs differ (Welch's t test); Benjamini and Hochberg's rule at 5 %"
    return (
        f"of counting samples, and {RUN_TO_RUN:.1%} from run to run, as on a quiet machine (three "
        "runs a side tell how it was here); Benjamini and Hochberg's rule at 5 %"
    )


def verdict_text(verdict: Verdict) -> str:
    """`exceeded: total(f) > +5%: +21.2% (+15.1% to +27.9%)`."""
    text = f"{verdict.state}: {verdict.limit}"
    if verdict.change:
        text += f": {_change(verdict.change)} ({_interval(verdict.change)})"
    return f"{text}: {verdict.why}" if verdict.why else text


def print_comparison(
    comparison: Comparison, verdicts: list[Verdict], n: int, stream: TextIO
) -> None:
    """As text."""
    show(lambda columns: _lines(comparison, verdicts, n, columns), stream)


def _lines(comparison: Comparison, verdicts: list[Verdict], n: int, columns: int) -> list[Line]:
    lines: list[Line] = [[("pyhybrid diff", STRONG)]]
    for name, text, warn in facts(comparison):
        lines += note_lines(name, text, columns, "" if not warn else WARN)
    for section in sections(comparison, n):
        lines += [[("", "")], [(section.title, STRONG)], *_table(section, columns)]
    lines += [[("", "")]] if verdicts else []
    for verdict in verdicts:
        style = WARN if verdict.state in (EXCEEDED, UNSURE) else ""
        lines += note_lines("limit", verdict_text(verdict), columns, style)
    return lines


def _table(section: Section, columns: int) -> list[Line]:
    if not section.rows:
        return []
    table = [(section.columns, DIM), *section.rows]
    table = [([visible(cell) for cell in cells], style) for cells, style in table]
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in table), strict=True)]
    lines: list[Line] = []
    for cells, style in table:
        figures = "".join(
            f"  {cell:>{width}}" for cell, width in zip(cells[:-1], widths, strict=False)
        )
        lines.append(
            [(f"{figures}  {middle(cells[-1], max(20, columns - len(figures) - 2))}", style)]
        )
    return lines


def markdown(comparison: Comparison, verdicts: list[Verdict], n: int) -> Iterator[str]:
    """As Markdown, for a comment in continuous integration."""
    yield "### pyhybrid diff"
    yield ""
    for verdict in verdicts:
        yield f"- **{_plain(verdict_text(verdict))}**"
    for name, text, _ in facts(comparison):
        yield f"- {name}: {_plain(text)}"
    for section in sections(comparison, n):
        yield from ("", f"**{_plain(section.title)}**")
        if section.rows:
            yield from ("", _row(section.columns))
            yield _row(["--:"] * (len(section.columns) - 1) + [":--"])
            for cells, _ in section.rows:
                yield _row([*map(_plain, cells[:-1]), _code(cells[-1])])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Text without what Markdown or HTML would obey."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>#|~" else each for each in visible(text))


def _code(text: str) -> str:
    """Text in the font of code; of a table's row nothing but its bar would end the cell."""
    return "`" + visible(text).replace("`", "'").replace("|", "\\|") + "`"


def comparison_json(comparison: Comparison, verdicts: list[Verdict]) -> dict[str, Any]:
    """As plain values: the keys are Comparison's, and `limits`; what is infinite is null."""
    plain = asdict(comparison)
    for each, found in zip(plain["functions"], comparison.functions, strict=True):
        each["function"] = found.function._asdict()
    plain["limits"] = [asdict(each) for each in verdicts]
    return {key: _finite(value) for key, value in plain.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
