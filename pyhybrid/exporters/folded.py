"""Folded stacks: one call path a line, the input of flamegraph.pl, speedscope, inferno.

Format: https://github.com/brendangregg/FlameGraph#2-fold-stacks - frames from the root to the leaf
with `;` between them, a space, a count.  The root frame is the thread's name, as perf's stacks
begin with the comm.  A count is the weight in sampling periods (one sample is one period unless
the clock skipped some); in a profile without samples it is exact self time in microseconds.
What import statements run is one frame, `[import …]`, unless all frames are wanted.

Within a limit of bytes paths are cut in their middle, and those with least weight to their function
(folded_paths.py); the sum of all counts stays.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import BinaryIO

from pyhybrid.exporters.exporter import Exporter
from pyhybrid.exporters.folded_paths import SHOWN, THREAD, FoldedPaths, Weights
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import Imports, import_frames, import_line
from pyhybrid.views.labels import Labels

MICROSECOND = 1000  # nanoseconds


class Folded(Exporter):
    """Writes the folded call tree (call_tree/folded_tree.py) as folded stacks, sorted by line."""

    name = "folded"
    help = "folded stacks for flamegraph.pl"
    suffix = ".folded"
    full_names = False  # native names with parameters and generic arguments
    all_frames = False  # nothing is folded
    min_time_ns = 0  # paths with less inclusive weight are part of those that they go on from

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the lines, of `limit_bytes` at most."""
        tree = FoldedTree.of(profile, self.all_frames)
        labels = Labels(profile, self.full_names, self.all_frames).of_frame
        notes = []
        weights, unit_ns = self._weights(profile, tree)
        if not self.all_frames:
            weights, labels = _without_imports(profile, tree, weights, labels)
        paths = FoldedPaths(profile, tree, labels)
        size = 0 if limit_bytes is None else paths.total_bytes(weights)
        if limit_bytes is None or size <= limit_bytes:
            totals = paths.whole(weights)
        else:
            totals, share = paths.within(weights, limit_bytes)
            notes.append(
                f"has call paths, of {SHOWN} frames at most, for {share:.1%} of the "
                f"time, else functions (all: {size >> 20} MB by `pyhybrid export -f folded`)"
            )
        for line in _lines(totals, unit_ns):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        return notes

    def lines(self, profile: Profile, tree: FoldedTree, labels: dict[int, str]) -> list[str]:
        """The lines, sorted, without line ends; `labels` by frame id."""
        weights, unit_ns = self._weights(profile, tree)
        weights, labels = _without_imports(profile, tree, weights, labels)
        return _lines(FoldedPaths(profile, tree, labels).whole(weights), unit_ns)

    def _weights(self, profile: Profile, tree: FoldedTree) -> tuple[Weights, int]:
        """By thread and folded node; and the unit of a line's count, in ns."""
        of_node, nodes = tree.of_node, profile.stacks.node
        weights: Weights = Counter()
        for sampled in profile.sampled:
            weights[sampled.thread, of_node[nodes[sampled.stack]]] += sampled.weight_ns
        unit_ns = profile.period_ns
        if not weights:
            unit_ns = MICROSECOND
            exact = profile.exact
            for thread, node, self_ns in zip(exact.thread, exact.node, exact.self_ns, strict=True):
                weights[thread, of_node[node]] += self_ns
        if self.min_time_ns:
            weights = _merged(weights, tree.parent, self.min_time_ns)
        return weights, unit_ns


def _without_imports(
    profile: Profile, tree: FoldedTree, weights: Weights, labels: dict[int, str]
) -> tuple[Weights, dict[int, str]]:
    """What import statements run is theirs, and they have one name."""
    found = Imports(profile, tree.parent, tree.frame)
    if not any(found.outer):
        return weights, labels
    of_node = array("q", bytes(8 * len(tree.parent)))
    rest: Weights = Counter()
    for (thread, node), weight_ns in weights.items():
        if node != THREAD:
            of_node[node] += weight_ns
        rest[thread, node if node == THREAD else found.node[node]] += weight_ns
    name = import_line(found.modules(labels, of_node))
    return rest, labels | dict.fromkeys(import_frames(profile), name)


def _lines(totals: Counter[str], unit_ns: int) -> list[str]:
    return sorted(f"{path} {n}" for path, n in _in_units(totals, unit_ns))


def _in_units(totals: Counter[str], unit_ns: int) -> Iterator[tuple[str, int]]:
    """In whole units; what a path has more is the next one's.

    So the sums of all functions, whose paths follow each other, are right to a unit.
    """
    rest_ns = 0
    for path, total_ns in sorted(totals.items()):
        n, rest_ns = divmod(rest_ns + total_ns, unit_ns)
        yield path, n


def _merged(weights: Weights, parent: Sequence[int], least_ns: int) -> Weights:
    """Weights by (thread, node), of nodes whose inclusive weight is `least_ns` or more; that of
    others is the nearest such node's above, or the thread's own: (thread, THREAD)."""
    inclusive = weights.copy()
    todo = [(-node, thread) for thread, node in weights]
    heapify(todo)
    while todo:  # children before their parents
        node, thread = heappop(todo)
        above = parent[-node]
        if above and (thread, above) not in inclusive:
            heappush(todo, (-above, thread))
        if above:
            inclusive[thread, above] += inclusive[thread, -node]
    merged: Weights = Counter()
    for (thread, node), weight_ns in weights.items():
        while node != THREAD and inclusive[thread, node] < least_ns:
            node = parent[node] or THREAD
        merged[thread, node] += weight_ns
    return merged
