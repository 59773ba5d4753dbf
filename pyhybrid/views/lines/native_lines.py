"""Source lines of native functions: how many of the samples were on each, all threads together.

A view over `Profile.places`, so over what debug information has (inlined.py).  A line has a
sample's weight as its own where the innermost frame that views keep (folded_tree.py) was on it, and
in total where any frame was.
"""

from __future__ import annotations

import os
from collections import Counter

from pyhybrid.base.structs import Struct
from pyhybrid.symbols.plumbing import is_interpreter, starts_threads
from pyhybrid.tables import Place
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.folded_tree import LAMBDA, NATIVE, FoldedTree, classify
from pyhybrid.views.labels import labels_of

LEAST_SHARE = 0.005  # of all samples, that a function must have as its own to be listed
MAX_FUNCTIONS = 10

Key = tuple[int, str, int]  # frame, file, line


class NativeLine(Record):
    """Hold one line: its share of all samples."""

    line: int
    self_share: float
    total_share: float


class NativeFunctionLines(Struct):
    """Hold the lines of a function, or of calls of it that were inlined, in their order."""

    name: str  # as in folded stacks
    file: str
    lines: list[NativeLine]

    @property
    def self_share(self) -> float:
        """Return the share of all its lines."""
        return sum(each.self_share for each in self.lines)


def native_lines(profile: Profile) -> list[NativeFunctionLines]:
    """Return functions whose lines debug information has, those with most samples first."""
    own, total = _weights(profile)
    all_ns = sum(row.weight_ns for row in profile.sampled) or 1
    labels, kinds = labels_of(profile, full_names=False), classify(profile)
    functions: dict[tuple[int, str], NativeFunctionLines] = {}
    for key in sorted(total):
        frame, file, line = key
        if kinds[frame] in (NATIVE, LAMBDA) and not _is_hidden(profile, frame, file):
            function = functions.setdefault(
                (frame, file), NativeFunctionLines(labels[frame], file, [])
            )
            function.lines.append(NativeLine(line, own[key] / all_ns, total[key] / all_ns))
    large = [each for each in functions.values() if each.self_share >= LEAST_SHARE]
    return sorted(large, key=lambda f: (-f.self_share, f.file, f.name))[:MAX_FUNCTIONS]


def _is_hidden(profile: Profile, frame: int, file: str) -> bool:
    """Is it the interpreter's own code or the C library's, of which the source is not here?"""
    path = profile.modules[profile.frames[frame].module or 0].path
    is_systems = is_interpreter(path) or starts_threads(os.path.basename(path))
    return is_systems and not os.path.exists(file)


def _weights(profile: Profile) -> tuple[Counter[Key], Counter[Key]]:
    """Return weights by line: of samples of its own, and of all that passed it, once each."""
    own: Counter[Key] = Counter()
    total: Counter[Key] = Counter()
    parents, places = profile.stacks.parent, profile.places
    of_stack: Counter[int] = Counter()
    for sampled in profile.sampled:
        of_stack[sampled.stack] += sampled.weight_ns
    for stack, weight_ns in of_stack.items():
        passed = set()
        row = stack
        while row:
            for frame, file, line in places.get(row, ()):
                if file and line:
                    passed.add((frame, file, line))
            row = parents[row]
        for key in passed:
            total[key] += weight_ns
        place = _own_place(profile, stack)
        if place and place.file and place.line:
            own[place.frame, place.file, place.line] += weight_ns
    return own, total


def _own_place(profile: Profile, stack: int) -> Place | None:
    """Return where the innermost frame was that is kept: what plumbing below it does is its own."""
    tree, nodes = FoldedTree.of(profile), profile.stacks.node
    kept, row = tree.of_node[nodes[stack]], stack
    while row and tree.of_node[nodes[row]] == kept:
        for place in reversed(profile.places.get(row, [])):
            if tree.stand_in.get(place.frame, place.frame) == tree.frame[kept]:
                return place
        row = profile.stacks.parent[row]
    return None
