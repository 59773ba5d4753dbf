"""Lines as a listing, a part for each function: source, and hits and time or shares of samples."""

from dataclasses import dataclass
from typing import TextIO

from pyhybrid.errors import PyhybridError
from pyhybrid.report.source_text import Sources
from pyhybrid.report.terminal import DIM, STRONG, WARN, Line, show
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import shorten_file
from pyhybrid.views.lines.native_lines import LEAST_SHARE, NativeFunctionLines, native_lines
from pyhybrid.views.lines.python_lines import FunctionLines, function_lines

HOT = 0.1  # share of the function's time, or samples, from which on a line stands out
AROUND = 2  # lines of source shown before and after a native one
_HEAD = f"{'line':>6} {'hits':>11} {'time ms':>12} {'us per hit':>12} {'time':>6}  source"
_NATIVE_HEAD = f"{'line':>6} {'self':>7} {'total':>7}  source"


@dataclass(slots=True)
class LineReport:
    """What `report lines --json` prints: lines that were counted, and shares of the samples."""

    functions: list[FunctionLines]
    native: list[NativeFunctionLines]


def line_figures(profile: Profile) -> LineReport:
    """All lines that are known.  Raises PyhybridError where none are."""
    found = LineReport(function_lines(profile), native_lines(profile))
    if not (found.functions or found.native):
        native_code = "code with debug information was sampled"
        if profile.places:
            least = f"{LEAST_SHARE:.1%} of the samples as its own"
            native_code = f"function with known lines, but for the interpreter's, has {least}"
        raise PyhybridError(
            f"{profile.path}: no lines were recorded (--lines -t NAME), and no native {native_code}"
        )
    return found


def print_lines(profile: Profile, stream: TextIO) -> None:
    """Print them on `stream`.  Raises PyhybridError where none are known."""
    folder = str(profile.meta.get("cwd") or "")
    sources, found = Sources(profile.meta), line_figures(profile)
    lines = [line for each in found.functions for line in _function(each, folder, sources)]
    lines += [line for each in found.native for line in _native(each, folder, sources)]
    show(lambda columns: lines[:-1], stream)


def _function(function: FunctionLines, folder: str, sources: Sources) -> list[Line]:
    figures = {each.line: each for each in function.lines}
    source = sources.function(function.file, function.name, function.line, max(figures))
    place = f"{shorten_file(function.file, folder)}:{function.line}"
    calls = f"{function.calls:,} call{'s' * (function.calls != 1)}"
    text = f" ({place})  {calls}, {function.total_ns / 1e9:.4f} s in its lines"
    lines: list[Line] = [[(function.name, STRONG), (text, "")]]
    if source.note:
        lines[0].append((f"; {source.note}", WARN))
    lines.append([(_HEAD, DIM)])
    for number in sorted({*figures, *source.lines}):
        code = source.lines.get(number, "")
        if number not in figures:
            lines.append([(f"{number:6}{'':47}{code}".rstrip(), DIM)])
            continue
        line = figures[number]
        share = line.total_ns / (function.total_ns or 1)
        per_hit = f"{line.total_ns / line.hits / 1e3:12.2f}" if line.hits else f"{'':12}"
        text = f"{number:6} {line.hits:11,} {line.total_ns / 1e6:12.3f} {per_hit} {share:6.1%}  "
        lines.append([(text, ""), (code, STRONG if share >= HOT else "")])
    return [*lines, [("", "")]]


def _native(function: NativeFunctionLines, folder: str, sources: Sources) -> list[Line]:
    figures = {each.line: each for each in function.lines}
    around = {at + i for at in figures for i in range(-AROUND, AROUND + 1)}
    source = sources.lines(function.file, around)
    text = f" ({shorten_file(function.file, folder)})  {function.self_share:.1%} of the samples"
    lines: list[Line] = [[(function.name, STRONG), (text, "")]]
    if source.note:
        lines[0].append((f"; {source.note}", WARN))
    lines.append([(_NATIVE_HEAD, DIM)])
    before = 0
    for number in sorted({*figures, *source.lines}):
        if before and number > before + 1:
            lines.append([(f"{'…':>6}", DIM)])
        before = number
        code = source.lines.get(number, "")
        if number not in figures:
            lines.append([(f"{number:6}{'':18}{code}".rstrip(), DIM)])
            continue
        line = figures[number]
        own = f"{line.self_share:7.1%}" if line.self_share else f"{'':7}"
        is_hot = line.self_share >= HOT * function.self_share
        text = f"{number:6} {own} {line.total_share:7.1%}  "
        lines.append([(text, ""), (code, STRONG if is_hot else "")])
    return [*lines, [("", "")]]
