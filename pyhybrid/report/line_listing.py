"""Lines as a listing, a part for each function: source, and hits and time or shares of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TextIO

from pyhybrid.errors import PyhybridError
from pyhybrid.report.source_text import Source, Sources
from pyhybrid.report.table import Column, Table, number, share, text
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, show
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.labels import shorten_file
from pyhybrid.views.lines.native_lines import LEAST_SHARE, NativeFunctionLines, native_lines
from pyhybrid.views.lines.python_lines import FunctionLines, LineFigures, function_lines

HOT = 0.1  # share of the function's time, or samples, from which on a line stands out
AROUND = 2  # lines of source shown before and after a native one
_NONE_RECORDED = "no lines were recorded (--lines -t NAME)"


class LineReport(Record):
    """Hold what `report lines --json` prints: counted lines, and shares of the samples."""

    functions: list[FunctionLines]
    native: list[NativeFunctionLines]


def line_figures(profile: Profile) -> LineReport:
    """Return all lines that are known.  Raises PyhybridError where none are."""
    found = LineReport(function_lines(profile), native_lines(profile))
    if not (found.functions or found.native):
        native_code = "code with debug information was sampled"
        if profile.places:
            least = f"{LEAST_SHARE:.1%} of the samples as its own"
            native_code = f"function with known lines, but for the interpreter's, has {least}"
        raise PyhybridError(f"{profile.path}: {_NONE_RECORDED}, and no native {native_code}")
    return found


def print_lines(profile: Profile, stream: TextIO) -> None:
    """Print them on `stream`.  Raises PyhybridError where none are known."""
    folder = str(profile.meta.get("cwd") or "")
    sources, found = Sources(profile.meta), line_figures(profile)
    lines: list[Line] = []
    if not found.functions and not profile.meta.get("lines"):
        lines += [[(f"{_NONE_RECORDED}: these are lines of native code", WARN)], [("", "")]]
    lines += [line for each in found.functions for line in _function(each, folder, sources)]
    lines += [line for each in found.native for line in _native(each, folder, sources)]
    show(lambda columns: lines[:-1], stream)


class _Row(Record):
    """Hold a line of the source: its text, and its figures, where it has some."""

    number: int | str  # or what stands for those that are not shown
    text: str
    figures: Any
    is_hot: bool = False

    @property
    def styles(self) -> tuple[str, str]:
        """Return those of the table's line."""
        return (DIM, DIM) if self.figures is None else ("", STRONG * self.is_hot)


def _function(function: FunctionLines, folder: str, sources: Sources) -> list[Line]:
    figures = {each.line: each for each in function.lines}
    source = sources.function(function.file, function.name, function.line, max(figures))
    place = f"{shorten_file(function.file, folder)}:{function.line}"
    calls = f"{function.calls:,} call{'s' * (function.calls != 1)}"
    facts = f" ({place})  {calls}, {function.total_ns / 1e9:.4f} s in its lines"
    all_ns = function.total_ns or 1
    hot = {at for at, each in figures.items() if each.total_ns / all_ns >= HOT}
    rows = [
        _Row(at, source.lines.get(at, ""), figures.get(at), at in hot)
        for at in sorted({*figures, *source.lines})
    ]
    columns = (
        Column("line", 6, "number"),
        _figure("hits", 12, lambda line: line.hits, number),
        _figure("time ms", 13, lambda line: line.total_ns / 1e6, "{:.3f}".format),
        _figure("us per hit", 13, _us_per_hit, "{:.2f}".format),
        _figure("time", 7, lambda line: line.total_ns / all_ns, share),
        text("source", "text"),
    )
    return [*_head(function.name, facts, source), *_lines(columns, rows), [("", "")]]


def _us_per_hit(line: LineFigures) -> float | None:
    return line.total_ns / line.hits / 1e3 if line.hits else None


def _native(function: NativeFunctionLines, folder: str, sources: Sources) -> list[Line]:
    figures = {each.line: each for each in function.lines}
    around = {at + i for at in figures for i in range(-AROUND, AROUND + 1)}
    source = sources.lines(function.file, around)
    facts = f" ({shorten_file(function.file, folder)})  {share(function.self_share)} of the samples"
    hot = {at for at, e in figures.items() if e.self_share >= HOT * function.self_share}
    rows: list[_Row] = []
    numbers = sorted({*figures, *source.lines})
    for before, at in pairwise([*numbers[:1], *numbers]):
        if at > before + 1:
            rows.append(_Row("…", "", None))
        rows.append(_Row(at, source.lines.get(at, ""), figures.get(at), at in hot))
    columns = (
        Column("line", 6, "number"),
        _figure("self", 8, lambda line: line.self_share or None, share),
        _figure("total", 8, lambda line: line.total_share, share),
        text("source", "text"),
    )
    return [*_head(function.name, facts, source), *_lines(columns, rows), [("", "")]]


def _figure(title: str, width: int, of: Callable[[Any], Any], show: Callable[[Any], str]) -> Column:
    """Return a column of a line that has figures."""
    return Column(title, width, lambda row: None if row.figures is None else of(row.figures), show)


def _head(name: str, facts: str, source: Source) -> list[Line]:
    line: Line = [(name, STRONG), (facts, "")]
    return [[*line, (f"; {source.note}", WARN)] if source.note else line]


def _lines(columns: Sequence[Column], rows: Sequence[_Row]) -> Iterator[Line]:
    return Table(columns, rows, lambda row: row.styles).lines()
