"""What the lines of folded stacks say of threads and folded nodes, all of it or within a limit.

Where all would be too much, deep paths are cut in their middle, which makes those of a recursion
one line, and the lines with most weight are written. Of what the others say, thread and function
are told, or the thread alone.  No weight is left out.
"""

from collections import Counter

from pyhybrid.base.pseudo_frames import INTERPRETER, LEFT_OUT
from pyhybrid.exporters.separators import SEPARATORS
from pyhybrid.exporters.size_limit import Summed, by_function
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree

THREAD = -1  # where a node is expected: the thread itself, above all nodes
SHOWN = 128  # frames of a path that is cut, half of them from each end
_COUNT_BYTES = 16  # of a line: the count and what is around it, about

Weights = Counter[tuple[int, int]]  # in ns, by thread and folded node or THREAD


class FoldedPaths:
    """The lines of a profile without their counts."""

    def __init__(self, profile: Profile, tree: FoldedTree, labels: dict[int, str]) -> None:
        """`labels` by frame id."""
        self._tree = tree
        self._threads = {t: profile.thread_name(t).translate(SEPARATORS) for t in profile.threads}
        self._longest_thread = max(map(_size, self._threads.values()), default=0)
        self._names = {frame: label.translate(SEPARATORS) for frame, label in labels.items()}

    def whole(self, weights: Weights) -> Counter[str]:
        """All lines, and their weights."""
        totals: Counter[str] = Counter()
        for (thread, node), weight_ns in weights.items():
            totals[self._line(thread, self._path(node))] += weight_ns
        return totals

    def total_bytes(self, weights: Weights) -> int:
        """About how many bytes the lines take, if no two are one."""
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
        """Lines within the limit, and the share of the weight whose paths they tell."""
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
        """Of each node the depth, and the last one of those kept at the root's end (THREAD: 0)."""
        depth, outer = [0], [0]
        for node, parent in enumerate(self._tree.parent[1:], 1):
            depth.append(depth[parent] + 1)
            outer.append(node if depth[node] <= SHOWN // 2 else outer[parent])
        return [*depth, 0], [*outer, 0]

    def _size_alone(self, row: int, frames: int) -> int:
        """Of a line of a thread and a function."""
        name = self._names[self._tree.frame[row]] if frames and row > 0 else INTERPRETER
        return self._longest_thread + _size(LEFT_OUT) + _size(name) + _COUNT_BYTES


def _size(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))
