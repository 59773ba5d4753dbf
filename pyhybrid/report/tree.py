"""The call tree as text: exact calls and times beside the samples, one line a function.

Python functions carry what the events counted; native ones the share of the samples that fell in
them or below.  All threads are one tree.  What is small is left out and counted; a run of native
frames that only call one another is one line, and so is what import statements run.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import eq, mul

from pyhybrid._profile import add_up, at_least, inclusive, take
from pyhybrid.profile_file.profile import Profile
from pyhybrid.pseudo import OWN_CALLBACK
from pyhybrid.symbols.plumbing import IMPORT_FILES, IMPORT_KEPT
from pyhybrid.views.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels, declared_at, module_of

LEAST_SHARE = 0.01  # of all samples, or of all time where there are none
MAX_LINES = 200
N_MODULES = 3  # that are named where their imports are one line
STEP = "  "


def tree_lines(
    profile: Profile,
    min_time_ns: int = 0,
    all_frames: bool = False,
    full_names: bool = False,
    imports: bool = False,
) -> Iterator[str]:
    """The lines; paths below 1 % or `min_time_ns` are left out.

    With `all_frames` nothing is folded, and each frame has a line of its own; with `imports` what
    import statements run has, too.
    """
    labels = Labels(profile, full_names, all_frames).of_frame
    view = _View(profile, labels, min_time_ns, all_frames, imports or all_frames)
    yield "     total       calls  samples  function"
    yield from view.lines()


class _View:
    """The folded nodes that are large, with what is in each and below, all threads together.

    `_weights`: sampled, inclusive; `_calls`, `_totals`: exact; `_times`: the totals, of native
    functions that of the Python ones which they called.
    """

    def __init__(
        self,
        profile: Profile,
        labels: dict[int, str],
        min_time_ns: int,
        all_frames: bool,
        imports: bool,
    ) -> None:
        self._tree = tree = FoldedTree.of(profile, all_frames)
        self._labels, self._all_frames = labels, all_frames
        self._frames = profile.frames
        frames = () if imports else profile.frames.values()
        self._importing = {f.id for f in frames if f.name == IMPORT_KEPT and f.file in IMPORT_FILES}
        n = len(tree.parent)
        own = {f.id for f in profile.frames.values() if f.symbol == OWN_CALLBACK}
        counted = tree.of_program(profile)
        self_ns = array("q", bytes(8 * n))
        for row in profile.sampled:
            self_ns[tree.of_node[profile.stacks.node[row.stack]]] += row.weight_ns
        self_ns[0] = 0  # of what has no frame that is shown
        self._weights = inclusive(tree.parent, _where(counted, self_ns))
        exact, of_row = profile.exact, take(tree.of_node, profile.exact.node)
        # Else it is folded away.
        is_kept = bytes(map(eq, take(tree.frame, of_row), take(profile.nodes.frame, exact.node)))
        self._calls = add_up(of_row, exact.calls, n, is_kept)
        self._totals = add_up(of_row, exact.total_ns, n, is_kept)
        self._times = at_least(tree.parent, _where(counted, self._totals))
        self._weight_ns = self._weights[0]
        self._least_weight_ns = min_time_ns or max(1, round(self._weight_ns * LEAST_SHARE))
        self._least_time_ns = min_time_ns or max(1, round(self._times[0] * LEAST_SHARE))
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for node, figures in enumerate(zip(self._weights, self._times, strict=True)):
            is_large = figures[0] >= self._least_weight_ns or figures[1] >= self._least_time_ns
            if node and is_large and tree.frame[node] not in own:
                self._children[tree.parent[node]].append(node)

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
            if self._tree.frame[node] in self._importing:
                yield self._figures(node) + STEP * depth + self._imported(node)
                continue
            yield self._figures(node) + STEP * depth + " > ".join(names)
            todo += [(depth + 1, child) for child in self._shown(last)[::-1]]

    def _imported(self, node: int) -> str:
        """What stands for the imports at a place."""
        below, n_lines = self._shown(node), 0
        labels = [self._labels[self._tree.frame[each]] for each in below]
        names = [module_of(label) for label in labels if label.startswith("<module> (")]
        more = ", …" if len(names) > N_MODULES else ""
        while below:
            n_lines += len(below)
            below = [child for each in below for child in self._children[each]]
        modules = ", ".join(names[:N_MODULES]) or "…"
        return f"[import {modules}{more}] (lines with --imports: {n_lines})"

    def _shown(self, node: int) -> list[int]:
        """The children that are large by samples or by time, the largest first."""
        return sorted(self._children[node], key=lambda n: (-self._weights[n], -self._times[n], n))

    def _run(self, node: int) -> tuple[int, list[str]]:
        """The end of the run of native frames that begins here, and its names."""
        names = [self._name(node)]
        while self._is_native(node) and not self._all_frames:
            below = self._shown(node)
            if len(below) != 1 or not self._is_native(below[0]):
                break
            rest_ns = self._weights[node] - self._weights[below[0]]
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
        n_calls, total_ns = self._calls[node], self._totals[node]
        counted = n_calls or total_ns
        total = f"{total_ns / 1e9:8.3f} s" if counted else " " * 10
        calls = f"{n_calls:10,}" if counted else " " * 10
        share = f"{self._weights[node] / self._weight_ns:7.1%}" if self._weight_ns else " " * 7
        return f"{total}  {calls}  {share}  "


def _where(marked: bytes, values: Iterable[int]) -> "array[int]":
    """The values where they are marked, else 0."""
    return array("q", map(mul, values, marked))
