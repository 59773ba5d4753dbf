"""Where the time went: functions and call paths of the folded tree, by weight.

All weights are nanoseconds of the sampling clock, all threads together.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from pyhybrid.fold import FoldedTree
from pyhybrid.profile_file import Profile
from pyhybrid.pseudo import OWN_CALLBACK


@dataclass(slots=True)
class HotFunction:
    """A function's weight: `self_ns` in itself, `total_ns` with all that it called.

    A sample counts once in `total_ns`, however often the function recurs in it.  `python_ns`, of
    Python functions: itself with the native code that it called, down to the next Python frame.
    """

    frame: int
    samples: int  # in itself
    self_ns: int
    total_ns: int
    python_ns: int


@dataclass(slots=True)
class HotPath:
    """A call path (frame ids, root first) and the weight of samples that end in it."""

    frames: list[int]
    weight_ns: int


class Hot:
    """The functions and paths of one profile.

    Samples that met our own callbacks are outside all shares: `own_ns` is their weight.
    """

    def __init__(self, profile: Profile, all_frames: bool = False) -> None:
        """Fold the tree, unless `all_frames` are wanted, and add up."""
        self._profile = profile
        self._tree = FoldedTree.of(profile, all_frames)
        n_nodes = len(self._tree.parent)
        self._self_ns, self._samples = [0] * n_nodes, [0] * n_nodes
        self.own_ns = 0
        frames = profile.frames.values()
        own = {f.id for f in frames if f.kind == "pseudo" and f.symbol == OWN_CALLBACK}
        of_node, nodes = self._tree.of_node, profile.stacks.node
        for sampled in profile.sampled:
            node = of_node[nodes[sampled.stack]]
            if self._tree.frame[node] in own:
                self.own_ns += sampled.weight_ns
                continue
            self._self_ns[node] += sampled.weight_ns
            self._samples[node] += sampled.samples

    def paths(self, n: int) -> list[HotPath]:
        """The `n` call paths with most self weight."""
        heaviest = sorted(range(1, len(self._self_ns)), key=lambda i: (-self._self_ns[i], i))[:n]
        return [HotPath(self._tree.path(i), self._self_ns[i]) for i in heaviest if self._self_ns[i]]

    def functions(self) -> list[HotFunction]:
        """All functions that were sampled, most self weight first."""
        totals, python = self._totals(), self._python()
        self_ns: Counter[int] = Counter()
        samples: Counter[int] = Counter()
        for node, frame in enumerate(self._tree.frame):
            self_ns[frame] += self._self_ns[node]
            samples[frame] += self._samples[node]
        functions = [
            HotFunction(frame, samples[frame], self_ns[frame], total, python[frame])
            for frame, total in totals.items()
            if total
        ]
        return sorted(functions, key=lambda f: (-f.self_ns, -f.total_ns, f.frame))

    def _python(self) -> Counter[int]:
        """Weight by the innermost Python frame."""
        frames = self._profile.frames
        innermost = [0]
        weights: Counter[int] = Counter()
        for node in range(1, len(self._tree.parent)):
            frame = self._tree.frame[node]
            is_python = frames[frame].kind == "python"
            innermost.append(frame if is_python else innermost[self._tree.parent[node]])
            weights[innermost[node]] += self._self_ns[node]
        return weights

    def _totals(self) -> dict[int, int]:
        """Inclusive weight by frame: of each path only the outermost activation counts."""
        parent, frame_of = self._tree.parent, self._tree.frame
        inclusive = self._self_ns.copy()
        children: list[list[int]] = [[] for _ in parent]
        for node in range(len(parent) - 1, 0, -1):
            inclusive[parent[node]] += inclusive[node]
            children[parent[node]].append(node)
        totals: dict[int, int] = {}
        active: defaultdict[int, int] = defaultdict(int)
        todo = children[0].copy()
        while todo:
            node = todo.pop()
            if node < 0:  # all below it is done
                active[frame_of[~node]] -= 1
                continue
            frame = frame_of[node]
            if not active[frame]:
                totals[frame] = totals.get(frame, 0) + inclusive[node]
            active[frame] += 1
            todo.append(~node)
            todo += children[node]
        return totals
