"""The program's own lines, by the samples in each and in all that it called in libraries.

On a path the innermost line of a file of the program's own has all that is below it, however deep
libraries call one another.  What import statements run is left out.  Lines that mostly wait for
other threads come last.
"""

from __future__ import annotations

from array import array
from collections import Counter

from pyhybrid._columns import nearest, rows_from, take
from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.frameworks.torch import is_generated
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.waiting import MOST_WAITING, waiting_nodes


class ProgramLine(Record):
    """Hold a line, and the weight of the samples in it and in what it called in libraries."""

    file: str
    line: int
    function: str
    weight_ns: int
    text: str = ""  # of the source, where it is known
    waits: bool = False  # mostly, for other threads, as wall-clock time shows


def program_files(profile: Profile) -> set[str]:
    """Return the program's own Python files, and a notebook's cells; none a compiler wrote."""
    cells = set((profile.meta.get("cells") or {}).values())
    files = {frame.file or "" for frame in profile.frames.values() if frame.kind == "python"}
    return {f for f in files if f in cells or not (is_librarys(f) or is_generated(f))}


@made_once
def program_frames(profile: Profile) -> frozenset[int]:
    """Return the Python functions of the program itself."""
    files, frames = program_files(profile), profile.frames.values()
    return frozenset(f.id for f in frames if f.kind == "python" and f.file in files)


def program_lines(profile: Profile) -> list[ProgramLine]:
    """Return all that have weight, the heaviest first; those that mostly wait come last.

    A sample may have none: a period that its timer had counted already.
    """
    place_of = innermost_lines(profile)
    tree = FoldedTree.of(profile)
    nodes = array("I", profile.stacks.node)
    of_stack, waits = take(tree.of_node, nodes), take(waiting_nodes(profile), nodes)
    found: dict[tuple[str, int], str] = {}  # the function
    weights, waited = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for row in profile.sampled:
        place, node = place_of[row.stack], of_stack[row.stack]
        if not place or tree.imports.where[node]:
            continue
        frame, line = place
        found.setdefault((frame.file or "", line), frame.name)
        weights[frame.file or "", line] += row.weight_ns
        waited[frame.file or "", line] += row.weight_ns * waits[row.stack]
    lines = [
        ProgramLine(*place, found[place], ns, waits=waited[place] > MOST_WAITING * ns)
        for place, ns in weights.items()
        if ns
    ]
    return sorted(lines, key=lambda each: (each.waits, -each.weight_ns, each.file, each.line))


@made_once
def innermost_lines(profile: Profile) -> list[tuple[Frame, int] | None]:
    """Return each stack row's innermost frame of the program with a known line, and that."""
    stacks, program = profile.stacks, program_frames(profile)
    is_own = bytes(frame in program for frame in range(max(profile.frames, default=0) + 1))
    frame_of = take(profile.nodes.frame, array("I", stacks.node))
    has_line = bytearray(take(is_own, frame_of))
    for row in rows_from(has_line, 1):
        has_line[row] = bool(stacks.line[row])
    places: dict[int, tuple[Frame, int] | None] = {0: None}
    for row in rows_from(has_line, 1):
        places[row] = profile.frames[frame_of[row]], stacks.line[row] or 0
    return [places[row] for row in nearest(array("I", stacks.parent), has_line)]
