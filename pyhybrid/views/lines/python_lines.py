"""Lines of chosen functions: hits and times, all threads and paths together.

A view over the table `line` (tables/, which defines them).
"""

from __future__ import annotations

from collections import defaultdict

from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record


class LineFigures(Struct):
    """Hold one line of a function."""

    line: int
    hits: int
    total_ns: int


class FunctionLines(Record):
    """Hold a function whose lines were recorded; `line` is its first one, `lines` are in order."""

    name: str
    file: str
    line: int
    calls: int
    lines: list[LineFigures]

    @property
    def total_ns(self) -> int:
        """Return the time of all its lines: where it calls itself, more than its own total."""
        return sum(each.total_ns for each in self.lines)


def function_lines(profile: Profile) -> list[FunctionLines]:
    """Return the functions of the program whose lines were recorded, those with most time first."""
    frame_of = profile.nodes.frame
    figures: defaultdict[int, dict[int, LineFigures]] = defaultdict(dict)
    for row in profile.lines:
        one = figures[frame_of[row.node]].setdefault(row.line, LineFigures(row.line, 0, 0))
        one.hits += row.hits
        one.total_ns += row.total_ns
    if not figures:
        return []
    calls: defaultdict[int, int] = defaultdict(int)
    for node, n in zip(profile.exact.node, profile.exact.calls, strict=True):
        calls[frame_of[node]] += n
    functions = []
    for number, lines in figures.items():
        frame = profile.frames[number]
        ordered = sorted(lines.values(), key=lambda each: each.line)
        functions.append(
            FunctionLines(frame.name, frame.file or "?", frame.line or 0, calls[number], ordered)
        )
    return sorted(functions, key=lambda f: (-f.total_ns, f.file, f.line))
