"""A comparison of runs, for people: text for a terminal, or Markdown.

Both are made of the same sections.  What is within noise is grey, and under a heading of its own.
"""

from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite
from typing import Any, TextIO

from pyhybrid.base.terminal_text import visible
from pyhybrid.report.change_texts import change_text, interval_text, relative_text, time_text
from pyhybrid.report.comparison_tables import Section, sections
from pyhybrid.report.ellipsis import middle
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, note_lines, show
from pyhybrid.views.comparison.change_limits import EXCEEDED, UNSURE, Verdict
from pyhybrid.views.comparison.run_comparison import Comparison, Side
from pyhybrid.views.comparison.significance import RUN_TO_RUN


def _head(side: Side) -> str:
    return f"{side.command} ({len(side.files)} run{'s' * (len(side.files) > 1)})"


def facts(comparison: Comparison) -> list[tuple[str, str, bool]]:
    """What is said of the whole: name, text, whether it needs care."""
    before, after = comparison.before, comparison.after
    told = [("before", _head(before), False), ("after", _head(after), False)]
    times = [
        f"{name} {time_text(one)} -> {time_text(other)} ({relative_text(one, other)})"
        for name, one, other in (
            ("wall", before.wall_ns, after.wall_ns),
            ("CPU", before.cpu_ns, after.cpu_ns),
        )
        if one is not None and other is not None
    ]
    told.append(("time", ", ".join(times) or "?", False))
    if change := comparison.all:
        text = f"{before.samples:,} -> {after.samples:,}; their time {change_text(change)}"
        told.append(("samples", f"{text} ({interval_text(change)})", False))
        if before.spinning_ns or after.spinning_ns:
            one, other = time_text(before.spinning_ns), time_text(after.spinning_ns)
            text = f"{one} -> {other} in which threads of a pool spun for one another: it is left"
            text += " out of sampled times"
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
        text += f": {change_text(verdict.change)} ({interval_text(verdict.change)})"
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
