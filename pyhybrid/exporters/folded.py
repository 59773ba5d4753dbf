"""Folded stacks: one call path a line, the input of flamegraph.pl, speedscope, inferno.

Format: https://github.com/brendangregg/FlameGraph#2-fold-stacks - frames from the root to the leaf
with `;` between them, a space, a count.  The root frame is the thread's name, as perf's stacks
begin with the comm.  A count is the weight in sampling periods (one sample is one period unless
the clock skipped some); in a profile without samples it is exact self time in microseconds.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from pyhybrid.atomic import replacing
from pyhybrid.exporters.output import SEPARATORS, Output
from pyhybrid.fold import FoldedTree
from pyhybrid.names import Labels
from pyhybrid.profile_file import Profile
from pyhybrid.pseudo import INTERPRETER

MICROSECOND = 1000  # nanoseconds
THREAD = -1  # where a node is expected: the thread itself, above all nodes


class Folded:
    """Writes the folded call tree (fold.py) as folded stacks, sorted by line."""

    name = "folded"
    help = "folded stacks for flamegraph.pl"
    full_names = False  # native names with parameters and generic arguments
    all_frames = False  # nothing is folded
    min_time_ns = 0  # paths with less inclusive weight are part of those that they go on from

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Where it goes if nobody says."""
        return prefix + ".folded"

    def write(self, profile: Profile, path: str, limit_bytes: int | None = None) -> Output:
        """Write the file at `path`; not at all beyond `limit_bytes`.  Raises PyhybridError."""
        tree = FoldedTree.of(profile, self.all_frames)
        labels = Labels(profile, self.full_names, self.all_frames).of_frame
        size = _size(profile, tree, labels)
        if limit_bytes is not None and size > limit_bytes:
            note = f"{path} not written: it would take {size >> 20} MB"
            return Output(None, [f"{note} (`pyhybrid export -f folded` writes it)"])
        with replacing(path) as temporary, open(temporary, "wb") as file:
            for line in self.lines(profile, tree, labels):
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        return Output(path, [])

    def lines(self, profile: Profile, tree: FoldedTree, labels: dict[int, str]) -> list[str]:
        """The lines, sorted, without line ends; `labels` by frame id."""
        of_node, nodes = tree.of_node, profile.stacks.node
        weights: Counter[tuple[int, int]] = Counter()
        for sampled in profile.sampled:
            weights[sampled.thread, of_node[nodes[sampled.stack]]] += sampled.weight_ns
        unit_ns = profile.period_ns
        if not weights:
            unit_ns = MICROSECOND
            for row in profile.exact:
                weights[row.thread, of_node[row.node]] += row.self_ns
        if self.min_time_ns:
            weights = _merged(weights, tree.parent, self.min_time_ns)
        threads = {t.id: t.name.translate(SEPARATORS) for t in profile.threads.values()}
        names = {frame: label.translate(SEPARATORS) for frame, label in labels.items()}
        totals: Counter[str] = Counter()
        for (thread, node), weight_ns in weights.items():
            path = [names[frame] for frame in tree.path(node)] if node != THREAD else []
            path = path if node else [INTERPRETER]
            totals[";".join((threads[thread], *path))] += weight_ns
        return sorted(f"{path} {n}" for path, n in _in_units(totals, unit_ns))


def _in_units(totals: Counter[str], unit_ns: int) -> Iterator[tuple[str, int]]:
    """In whole units; what a path has more is the next one's.

    So the sums of all functions, whose paths follow each other, are right to a unit.
    """
    rest_ns = 0
    for path, total_ns in sorted(totals.items()):
        n, rest_ns = divmod(rest_ns + total_ns, unit_ns)
        yield path, n


def _merged(
    weights: Counter[tuple[int, int]], parent: list[int], least_ns: int
) -> Counter[tuple[int, int]]:
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
    merged: Counter[tuple[int, int]] = Counter()
    for (thread, node), weight_ns in weights.items():
        while node != THREAD and inclusive[thread, node] < least_ns:
            node = parent[node] or THREAD
        merged[thread, node] += weight_ns
    return merged


def _size(profile: Profile, tree: FoldedTree, labels: dict[int, str]) -> int:
    """About how many bytes the lines take, if no two are one."""
    lengths = [0]
    for parent, frame in zip(tree.parent[1:], tree.frame[1:], strict=True):
        lengths.append(lengths[parent] + 1 + len(labels[frame]))
    nodes = {tree.of_node[profile.stacks.node[sampled.stack]] for sampled in profile.sampled}
    nodes = nodes or {tree.of_node[row.node] for row in profile.exact}
    return sum(lengths[node] for node in nodes)
