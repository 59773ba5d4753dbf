"""Where the time went: functions and call paths of the folded tree, by weight.

All weights are nanoseconds of the sampling clock, all threads together.
"""

from heapq import nsmallest
from typing import NamedTuple

from pyhybrid._columns import add_up, inclusive, nearest, outermost, rows_from, take
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.waiting import MOST_WAITING, waiting_nodes
from pyhybrid.views.labels import labels_of


class HotFunction(NamedTuple):
    """Hold a function's weight: `self_ns` in itself, `total_ns` with all that it called.

    A sample counts once in `total_ns`, however often the function recurs in it.  `python_ns`, of
    Python functions: itself with the native code that it called, down to the next Python frame.
    """

    frame: int
    samples: int  # in itself
    self_ns: int
    total_ns: int
    python_ns: int
    waits: bool  # mostly, for other threads (waiting.py): in itself, of Python as `python_ns`


class HotPath(NamedTuple):
    """Hold a call path (frame ids, root first) and the weight of samples that end in it."""

    frames: list[int]
    weight_ns: int


class Hot:
    """Find the functions and paths of one profile."""

    def __init__(self, profile: Profile, all_frames: bool = False, imports: bool = True) -> None:
        """Fold the tree, unless `all_frames` are wanted, and add up.

        Without `imports` what import statements run is theirs; `imported` are its modules then, by
        the weight of all that their imports ran.
        """
        self._profile = profile
        self._tree = FoldedTree.of(profile, all_frames)
        self._self_ns = self._tree.own_ns
        self._samples = self._tree.of_samples(row.samples for row in profile.sampled)
        waits, node_of = waiting_nodes(profile), profile.stacks.node
        self._waiting_ns = self._tree.of_samples(
            row.weight_ns * waits[node_of[row.stack]] for row in profile.sampled
        )
        self.imported: list[str] = []
        if not imports:
            self._fold_imports()

    def _fold_imports(self) -> None:
        tree, found = self._tree, self._tree.imports
        labels = labels_of(self._profile)
        self.imported = found.modules(labels, self._self_ns)
        self._self_ns = add_up(found.node, self._self_ns, len(tree.parent))
        self._samples = add_up(found.node, self._samples, len(tree.parent))
        self._waiting_ns = add_up(found.node, self._waiting_ns, len(tree.parent))

    def paths(self, n: int) -> list[HotPath]:
        """Return the `n` call paths with most self weight."""
        weights = [(-self._self_ns[i], i) for i in rows_from(self._self_ns, 1) if i]
        return [HotPath(self._tree.path(i), -weight_ns) for weight_ns, i in nsmallest(n, weights)]

    def functions(self) -> list[HotFunction]:
        """Return all functions that were sampled, most self weight first."""
        parent, frame = self._tree.parent, self._tree.frame
        n_frames = max(self._profile.frames, default=0) + 1
        self_ns, samples = self._self_ns, self._samples
        everywhere = b"\1" * len(parent)
        is_outer = outermost(parent, frame, everywhere)
        is_python = {f.id for f in self._profile.frames.values() if f.kind == "python"}
        innermost = nearest(
            parent, take(bytes(map(is_python.__contains__, range(n_frames))), frame)
        )
        named = take(frame, innermost)
        columns = zip(
            add_up(frame, samples, n_frames),
            add_up(frame, self_ns, n_frames),
            add_up(frame, inclusive(parent, self_ns), n_frames, is_outer),
            add_up(named, self_ns, n_frames),
            add_up(frame, self._waiting_ns, n_frames),
            add_up(named, self._waiting_ns, n_frames),
            strict=True,
        )
        functions = []
        for number, (n, own_ns, total_ns, python_ns, own_wait, python_wait) in enumerate(columns):
            waits = own_wait > MOST_WAITING * own_ns
            if number in is_python:
                waits = python_wait > MOST_WAITING * python_ns
            if number and total_ns:
                functions.append(HotFunction(number, n, own_ns, total_ns, python_ns, waits))
        return sorted(functions, key=lambda f: (-f.self_ns, -f.total_ns, f.frame))
