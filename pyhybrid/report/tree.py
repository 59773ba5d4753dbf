"""The call tree as text: exact calls and times beside the samples, one line a function.

Python functions carry what the events counted; native ones the share of the samples that fell in
them or below.  All threads are one tree.  What is small is left out and counted; a run of native
frames that only call one another is one line.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pyhybrid.profile_file.profile import Profile
from pyhybrid.pseudo import OWN_CALLBACK
from pyhybrid.views.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels, declared_at

LEAST_SHARE = 0.01  # of all samples, or of all time where there are none
MAX_LINES = 200
STEP = "  "


@dataclass(slots=True)
class Branch:
    """A folded node with what is in it and below; figures are sums over threads."""

    calls: int = 0
    total_ns: int = 0  # exact
    time_ns: int = 0  # the same, of native functions that of the Python ones which they called
    weight_ns: int = 0  # sampled, inclusive
    self_ns: int = 0  # sampled, its own


def tree_lines(
    profile: Profile, min_time_ns: int = 0, all_frames: bool = False, full_names: bool = False
) -> Iterator[str]:
    """The lines; paths below 1 % or `min_time_ns` are left out.

    With `all_frames` nothing is folded, and each frame has a line of its own.
    """
    labels = Labels(profile, full_names, all_frames).of_frame
    view = _View(profile, labels, min_time_ns, all_frames)
    yield "     total       calls  samples  function"
    yield from view.lines()


class _View:
    def __init__(
        self, profile: Profile, labels: dict[int, str], min_time_ns: int, all_frames: bool
    ) -> None:
        self._tree = tree = FoldedTree.of(profile, all_frames)
        self._labels, self._all_frames = labels, all_frames
        self._frames = profile.frames
        self._branches = [Branch() for _ in tree.parent]
        own = {f.id for f in profile.frames.values() if f.symbol == OWN_CALLBACK}
        for row in profile.sampled:
            branch = self._branches[tree.of_node[profile.stacks.node[row.stack]]]
            branch.self_ns += row.weight_ns
        for exact in profile.exact:
            node = tree.of_node[exact.node]
            if tree.frame[node] == profile.nodes.frame[exact.node]:  # else it is folded away
                self._branches[node].calls += exact.calls
                self._branches[node].total_ns += exact.total_ns
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for node in range(len(tree.parent) - 1, 0, -1):
            branch, parent = self._branches[node], tree.parent[node]
            if tree.frame[node] in own:
                continue
            branch.weight_ns += branch.self_ns
            branch.time_ns = max(branch.total_ns, branch.time_ns)
            self._branches[parent].weight_ns += branch.weight_ns
            self._branches[parent].time_ns += branch.time_ns
            self._children[parent].append(node)
        whole = self._branches[0]
        self._weight_ns = whole.weight_ns
        self._least_weight_ns = min_time_ns or max(1, round(whole.weight_ns * LEAST_SHARE))
        self._least_time_ns = min_time_ns or max(1, round(whole.time_ns * LEAST_SHARE))

    def lines(self) -> Iterator[str]:
        todo = [(0, node) for node in self._shown(0)[::-1]]
        n = 0
        while todo:
            depth, node = todo.pop()
            last, names = self._run(node)
            n += 1
            if n > MAX_LINES:
                least_ns = max(self._least_weight_ns, self._least_time_ns)
                yield f"(and more: try --min-time {least_ns // 500_000 or 1}ms)"
                return
            yield self._figures(node) + STEP * depth + " > ".join(names)
            todo += [(depth + 1, child) for child in self._shown(last)[::-1]]

    def _shown(self, node: int) -> list[int]:
        """The children that are large by samples or by time, the largest first."""
        branches = self._branches
        large = [
            child
            for child in self._children[node]
            if branches[child].weight_ns >= self._least_weight_ns
            or branches[child].time_ns >= self._least_time_ns
        ]
        return sorted(large, key=lambda n: (-branches[n].weight_ns, -branches[n].time_ns, n))

    def _run(self, node: int) -> tuple[int, list[str]]:
        """The end of the run of native frames that begins here, and its names."""
        names = [self._name(node)]
        while self._is_native(node) and not self._all_frames:
            below = self._shown(node)
            if len(below) != 1 or not self._is_native(below[0]):
                break
            rest_ns = self._branches[node].weight_ns - self._branches[below[0]].weight_ns
            if rest_ns >= self._least_weight_ns:
                break
            (node,) = below
            names.append(self._name(node))
        return node, names if len(names) < 4 else [names[0], "…", names[-1]]

    def _is_native(self, node: int) -> bool:
        return self._frames[self._tree.frame[node]].kind in ("native", "kernel")

    def _name(self, node: int) -> str:
        frame = self._tree.frame[node]
        place = declared_at(self._frames[frame])
        return self._labels[frame] + (f" ({place})" if place else "")

    def _figures(self, node: int) -> str:
        branch = self._branches[node]
        counted = branch.calls or branch.total_ns
        total = f"{branch.total_ns / 1e9:8.3f} s" if counted else " " * 10
        calls = f"{branch.calls:10,}" if counted else " " * 10
        share = f"{branch.weight_ns / self._weight_ns:7.1%}" if self._weight_ns else " " * 7
        return f"{total}  {calls}  {share}  "
