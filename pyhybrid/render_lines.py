"""The lines of chosen functions as a listing: source, hits, time; one part for each function."""

import os
from typing import TextIO

from pyhybrid.lines import FunctionLines, recorded_lines
from pyhybrid.names import shorten_file
from pyhybrid.profile_file import Profile
from pyhybrid.render import DIM, STRONG, WARN, Line, show
from pyhybrid.source import find_source

HOT = 0.1  # share of the function's time from which on a line stands out
_HEAD = f"{'line':>6} {'hits':>11} {'time ms':>12} {'us per hit':>12} {'time':>6}  source"


def print_lines(profile: Profile, stream: TextIO) -> None:
    """Print them on `stream`.  Raises PyhybridError where no lines were recorded."""
    functions = recorded_lines(profile)
    folder = str(profile.meta.get("cwd") or "")
    recorded_ns = int(profile.meta.get("start_unix_ns") or 0)
    lines = [line for each in functions for line in _function(each, folder, recorded_ns)]
    show(lambda columns: lines[:-1], stream)


def _function(function: FunctionLines, folder: str, recorded_ns: int) -> list[Line]:
    figures = {each.line: each for each in function.lines}
    source = find_source(
        os.path.join(folder, function.file),
        function.name,
        function.line,
        max(figures),
        recorded_ns,
    )
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
