"""Folded stacks: one call path a line, the input of flamegraph.pl, speedscope, inferno.

Format: https://github.com/brendangregg/FlameGraph#2-fold-stacks - frames from the root to the leaf
with `;` between them, a space, a count.  The root frame is the thread's name, as perf's stacks
begin with the comm.  A count is the weight in sampling periods (one sample is one period unless
the clock skipped some); in a profile without samples it is exact self time in microseconds.
What import statements run is one frame, `[import …]`, unless all frames are wanted.

Within a limit of bytes paths are cut in their middle, and those with least weight to their function
(FoldedPaths); the sum of all counts stays.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import BinaryIO

from pyhybrid.base.pseudo_frames import INTERPRETER, LEFT_OUT
from pyhybrid.exporters import SEPARATORS, Exporter, Summed, by_function
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import import_frames, import_line
from pyhybrid.views.labels import labels_of
from pyhybrid.views.processes import grouped, processes_of

# What the lines of folded stacks have of threads and folded nodes, all of it or within a limit.
#
# Where all would be too much, deep paths are cut in their middle, which makes those of a recursion
# one line, and the lines with most weight are written. Of what the others have, thread and function
# are written, or the thread alone.  No weight is left out.

THREAD = -1  # where a node is expected: the thread itself, above all nodes
SHOWN = 128  # frames of a path that is cut, half of them from each end
_COUNT_BYTES = 16  # of a line: the count and what is around it, about

Weights = Counter[tuple[int, int]]  # in ns, by thread and folded node or THREAD


class FoldedPaths:
    """Make the lines of a profile without their counts."""

    def __init__(
        self,
        profile: Profile,
        tree: FoldedTree,
        labels: dict[int, str],
        by_process: bool = False,
    ) -> None:
        """Take `labels` by frame id; `by_process`: above threads each process is a frame."""
        self._tree = tree
        self._threads = {t: profile.thread_name(t).translate(SEPARATORS) for t in profile.threads}
        if by_process:
            named = {each.id: grouped([each], "process")[0].what for each in processes_of(profile)}
            self._threads = {
                number: ";".join(
                    text.translate(SEPARATORS) for text in (named[thread.process], thread.name)
                )
                for number, thread in profile.threads.items()
            }
        self._longest_thread = max(map(_size, self._threads.values()), default=0)
        self._names = {frame: label.translate(SEPARATORS) for frame, label in labels.items()}

    def whole(self, weights: Weights) -> Counter[str]:
        """Return all lines, and their weights."""
        totals: Counter[str] = Counter()
        for (thread, node), weight_ns in weights.items():
            totals[self._line(thread, self._path(node))] += weight_ns
        return totals

    def total_bytes(self, weights: Weights) -> int:
        """Return about how many bytes the lines take, if no two are one."""
        of_frame = {frame: 1 + _size(name) for frame, name in self._names.items()}
        of_thread = {thread: _size(name) for thread, name in self._threads.items()}
        of_node = dict.fromkeys((0, THREAD), _COUNT_BYTES + len(INTERPRETER))
        total = 0
        for thread, node in weights:
            path = []  # without sizes yet: few nodes have a weight where there are samples
            while node not in of_node:
                path.append(node)
                node = self._tree.parent[node]
            for each in reversed(path):
                of_node[each] = of_node[node] + of_frame[self._tree.frame[each]]
                node = each
            total += of_thread[thread] + of_node[node]
        return total

    def within(self, weights: Weights, limit_bytes: int) -> tuple[Counter[str], float]:
        """Return lines within the limit, and the share of the weight whose paths they have."""
        rows = [Summed(*key, weight_ns) for key, weight_ns in weights.items()]
        rows.sort(key=lambda row: -row.weight_ns)
        totals: Counter[str] = Counter()
        depth, outer = self._outer()
        left, n = limit_bytes * 3 // 4, 0
        while n < len(rows):
            thread, node = rows[n][:2]
            path = self._cut(node, outer[node]) if depth[node] > SHOWN else self._path(node)
            line = self._line(thread, path)
            if line not in totals and (left := left - _size(line) - _COUNT_BYTES) < 0:
                break
            totals[line] += rows[n].weight_ns
            n += 1
        share = totals.total() / (weights.total() or 1)
        functions = [*self._tree.frame, 0]  # the last one of THREAD
        for row in by_function(rows[n:], limit_bytes // 8, functions, self._size_alone):
            function = self._path(row.row)[-1:] if row.frames else []
            totals[self._line(row.thread, [LEFT_OUT, *function])] += row.weight_ns
        return totals, share

    def _line(self, thread: int, names: list[str]) -> str:
        return ";".join((self._threads[thread], *names))

    def _path(self, node: int) -> list[str]:
        if node == THREAD:
            return []
        return [self._names[frame] for frame in self._tree.path(node)] or [INTERPRETER]

    def _cut(self, node: int, outer: int) -> list[str]:
        inner = []
        for _ in range(SHOWN // 2):
            inner.append(self._names[self._tree.frame[node]])
            node = self._tree.parent[node]
        return [*self._path(outer), LEFT_OUT, *reversed(inner)]

    def _outer(self) -> tuple[list[int], list[int]]:
        """Return each node's depth, and the last of those kept at the root's end (THREAD: 0)."""
        depth, outer = [0], [0]
        for node, parent in enumerate(self._tree.parent[1:], 1):
            depth.append(depth[parent] + 1)
            outer.append(node if depth[node] <= SHOWN // 2 else outer[parent])
        return [*depth, 0], [*outer, 0]

    def _size_alone(self, row: int, frames: int) -> int:
        """Return the size of a line of a thread and a function."""
        name = self._names[self._tree.frame[row]] if frames and row > 0 else INTERPRETER
        return self._longest_thread + _size(LEFT_OUT) + _size(name) + _COUNT_BYTES


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


MICROSECOND = 1000  # nanoseconds


class Folded(Exporter):
    """Write the folded call tree (call_tree/folded_tree.py) as folded stacks, sorted by line."""

    name = "folded"
    help = "folded stacks for flamegraph.pl"
    suffix = ".folded"
    full_names = False  # native names with parameters and generic arguments
    all_frames = False  # nothing is folded
    by_process = False  # the root frame is the process, the thread comes next
    min_time_ns = 0  # paths with less inclusive weight are part of those that they go on from

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the lines, of `limit_bytes` at most."""
        tree = FoldedTree.of(profile, self.all_frames)
        labels = labels_of(profile, self.full_names, self.all_frames)
        notes = []
        weights, unit_ns = self._weights(profile, tree)
        if not self.all_frames:
            weights, labels = _without_imports(profile, tree, weights, labels)
        paths = FoldedPaths(profile, tree, labels, self.by_process)
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
        """Return the lines, sorted, without line ends; `labels` by frame id."""
        weights, unit_ns = self._weights(profile, tree)
        weights, labels = _without_imports(profile, tree, weights, labels)
        return _lines(FoldedPaths(profile, tree, labels).whole(weights), unit_ns)

    def _weights(self, profile: Profile, tree: FoldedTree) -> tuple[Weights, int]:
        """Return the weights by thread and folded node; and the unit of a line's count, in ns."""
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
    """Give import statements what they run, under one name."""
    found = tree.imports
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
    """Yield them in whole units; what a path has more is the next one's.

    So the sums of all functions, whose paths follow each other, are right to a unit.
    """
    rest_ns = 0
    for path, total_ns in sorted(totals.items()):
        n, rest_ns = divmod(rest_ns + total_ns, unit_ns)
        yield path, n


def _merged(weights: Weights, parent: Sequence[int], least_ns: int) -> Weights:
    """Merge weights by (thread, node), of nodes whose inclusive weight is `least_ns` or more; that
    of others is the nearest such node's above, or the thread's own: (thread, THREAD)."""
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
