"""The call tree as text: exact calls and times beside the samples, one line a function.

Python functions carry what the events counted; native ones the share of the samples that fell in
them or below.  All threads are one tree.  What is small is left out and counted; a run of native
frames that only call one another is one line, and so is what import statements run.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import eq
from typing import NamedTuple

from pyhybrid._columns import add_up, at_least, inclusive, nearest, rows_from, take
from pyhybrid.report.ellipsis import to_the_last
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import import_line
from pyhybrid.views.gpu import GpuShare, gpu_times, kernels
from pyhybrid.views.labels import bare, count, declared_at, labels_of, module_of, short_time

LEAST_SHARE = 0.01  # of all samples, or of all time where there are none
MAX_LINES = 200
STEP = "  "
MAX_DEPTH, ROOMY = 10, 100  # where it has to fit into a screen: steps; columns with room for them


class TreeNode(Record):
    """Hold a function in the tree, below the node at `parent` of the list; None: outermost.

    Weights and times are inclusive; `calls` and `exact_total_ns`: None where nothing was counted.
    """

    parent: int | None
    depth: int
    function: str
    kind: str
    calls: int | None
    exact_total_ns: int | None
    weight_ns: int
    gpu_ns: int


class TreeFigures(Record):
    """Hold what `report tree --json` prints: parents before their children, the heaviest first.

    `weight_ns`: of all samples; what is below `least_weight_ns`, and below `least_time_ns` of exact
    time, is left out.
    """

    weight_ns: int
    least_weight_ns: int
    least_time_ns: int
    nodes: list[TreeNode]


class Row(NamedTuple):
    """Hold a line of the tree: nodes of which each calls only the next one."""

    depth: int
    above: int  # the node that calls the first
    nodes: list[int]


def tree_lines(
    profile: Profile,
    min_time_ns: int = 0,
    all_frames: bool = False,
    full_names: bool = False,
    imports: bool = False,
) -> Iterator[str]:
    """Yield the lines; paths below 1 % or `min_time_ns` are left out.

    With `all_frames` nothing is folded, and each frame has a line of its own; with `imports` what
    import statements run has, too.
    """
    labels = labels_of(profile, full_names, all_frames)
    view = CallTree(profile, labels, min_time_ns, all_frames, imports or all_frames)
    gpu = "    on GPU      itself" * view.has_gpu
    yield f"     total       calls  samples{gpu}  function"
    yield from view.lines()


def tree_figures(
    profile: Profile,
    min_time_ns: int = 0,
    all_frames: bool = False,
    full_names: bool = False,
    imports: bool = False,
) -> TreeFigures:
    """Return the same as figures: a node a function, however it is called."""
    labels = labels_of(profile, full_names, all_frames)
    return CallTree(profile, labels, min_time_ns, all_frames, imports or all_frames).figures()


class CallTree:
    """Hold the folded nodes that are large, with what is in each and below, all threads together.

    `_weights`: sampled, inclusive; `_calls`, `_totals`: exact; `_times`: the totals, of native
    functions that of the Python ones which they called; `_gpu`: on the GPU, inclusive.
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
        n = len(tree.parent)
        outer = b"" if imports else tree.imports.outer
        self._importing = set(rows_from(outer, 1))
        self._weights = inclusive(tree.parent, tree.own_ns)
        exact, of_row = profile.exact, take(tree.of_node, profile.exact.node)
        # Else it is folded away.
        is_kept = bytes(map(eq, take(tree.frame, of_row), take(profile.nodes.frame, exact.node)))
        self._calls = add_up(of_row, exact.calls, n, is_kept)
        self._totals = add_up(of_row, exact.total_ns, n, is_kept)
        self._times = at_least(tree.parent, self._totals)
        self._own_gpu = gpu_times(profile, tree)
        self._gpu = inclusive(tree.parent, self._own_gpu)
        self.has_gpu = bool(profile.gpu)
        self._weight_ns = self._weights[0] - tree.own_ns[0]  # of what has a frame that is shown
        self._is_counted = bool(exact)
        self._least_weight_ns = min_time_ns or max(1, round(self._weight_ns * LEAST_SHARE))
        self._least_time_ns = min_time_ns or max(1, round(self._times[0] * LEAST_SHARE))
        least_gpu_ns = min_time_ns or max(1, round(self._gpu[0] * LEAST_SHARE))
        self._kernels = kernels(profile, tree, least_gpu_ns, MAX_LINES)
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        large = set(rows_from(self._weights, self._least_weight_ns))
        large.update(rows_from(self._times, self._least_time_ns))
        large.update(rows_from(self._gpu, least_gpu_ns))
        for node in sorted(large):
            if node:
                self._children[tree.parent[node]].append(node)
        self._count_left_out(large)

    def _count_left_out(self, large: set[int]) -> None:
        """Count all of a function's calls by another one where native code between the two took
        several ways, of which some are too small to be shown (a coroutine's first step)."""
        parent, frame = self._tree.parent, self._tree.frame
        is_python = bytearray(max(self._frames, default=0) + 1)
        for each in self._frames.values():
            is_python[each.id] = each.kind not in ("native", "kernel")
        caller = nearest(parent, take(is_python, frame))
        shown: dict[tuple[int, int], int] = {}
        for node in large:
            key = caller[parent[node]], frame[node]
            if is_python[frame[node]] and self._times[node] >= self._times[shown.get(key, node)]:
                shown[key] = node
        calls, same = array("q", self._calls), dict[int, int]()  # what is left out -> shown
        for node in rows_from(self._calls, 1):
            if node not in large and is_python[frame[node]]:
                above = caller[parent[node]]
                to = shown.get((same.get(above, above), frame[node]))
                if to is not None:
                    same[node] = to
                    calls[to] += calls[node]
        self._calls = memoryview(calls)

    def rows(self, most: int, chains: bool = False) -> tuple[list[Row], bool]:
        """Return the heaviest rows, at most so many, in the order of the tree; are there more?

        With `chains` Python functions that do nothing but call the next one, as often as they are
        called, are one row with it.
        """
        chosen: defaultdict[int, list[Row]] = defaultdict(list)  # by the node above
        heap: list[tuple[int, int, int, Row]] = []

        def offer(above: int, depth: int) -> None:
            for child in self._children[above]:
                row = Row(depth, above, self._run(child, chains))
                heappush(heap, (-self._weights[child], -self._times[child], child, row))

        offer(0, 0)
        for _ in range(most):
            if not heap:
                break
            *_, row = heappop(heap)
            chosen[row.above].append(row)
            if row.nodes[0] not in self._importing:
                offer(row.nodes[-1], row.depth + 1)
        rows: list[Row] = []
        todo = chosen[0][::-1]
        while todo:
            row = todo.pop()
            rows.append(row)
            todo += chosen[row.nodes[-1]][::-1]
        return rows, bool(heap)

    def figures(self) -> TreeFigures:
        """Return all that is large."""
        nodes: list[TreeNode] = []
        todo: list[tuple[int, int | None, int]] = [(each, None, 0) for each in self._shown(0)[::-1]]
        while todo:
            node, parent, depth = todo.pop()
            frame = self._tree.frame[node]
            calls, total_ns = self._calls[node], self._totals[node]
            is_counted = bool(calls or total_ns)
            nodes.append(
                TreeNode(
                    *(parent, depth),
                    self.imported(Row(depth, 0, [node])) or self._labels[frame],
                    self._frames[frame].kind,
                    calls if is_counted else None,
                    total_ns if is_counted else None,
                    *(self._weights[node], self._gpu[node]),
                )
            )
            if node not in self._importing:
                here = len(nodes) - 1
                todo += [(each, here, depth + 1) for each in self._shown(node)[::-1]]
        least = self._least_weight_ns, self._least_time_ns
        return TreeFigures(self._weight_ns, *least, nodes)

    def lines(self) -> Iterator[str]:
        """Yield all that is large."""
        rows, is_cut = self.rows(MAX_LINES)
        for row in rows:
            names = [self._name(node) for node in row.nodes]
            shown = names if len(names) < 4 else [names[0], "…", names[-1]]
            text = self.imported(row) or " > ".join(shown)
            yield self._figures(row.nodes[0]) + STEP * row.depth + text
            for kernel in (each for node in row.nodes for each in self._kernels.get(node, ())):
                yield self._kernel_figures(kernel) + STEP * (row.depth + 1) + f"[GPU] {kernel.name}"
        if is_cut:
            least_ns = max(self._least_weight_ns, self._least_time_ns)
            yield f"(and more: try --min-time {least_ns // 500_000 or 1}ms)"

    def hot_lines(self, most: int, columns: int) -> list[str]:
        """Return the heaviest, each within so many columns, with a head."""
        lines = [f"  total{'     time     calls' * self._is_counted}  hot paths"]
        step = STEP if columns >= ROOMY else " "
        for row in self.rows(most, chains=True)[0]:
            first, last = row.nodes[0], row.nodes[-1]
            share = f"{self._weights[first] / self._weight_ns:7.1%}" if self._weight_ns else " " * 7
            counts = ""
            if self._is_counted:
                n_calls, total_ns = self._calls[last], self._totals[first]
                time = short_time(total_ns) if total_ns else ""
                counts = f" {time:>8} {count(n_calls or None, 9)}"
            head = f"{share}{counts}  {step * min(row.depth, MAX_DEPTH)}"
            names = [bare(self._labels[self._tree.frame[node]]) for node in row.nodes[:-1]]
            names.append(self.imported(row) or self._name(last))
            lines.append(head + to_the_last(names, columns - len(head)))
        return lines

    def imported(self, row: Row) -> str:
        """Return what stands for the imports at a place; "": it is none, or they are not folded."""
        if row.nodes[0] not in self._importing:
            return ""
        below, n_lines = self._shown(row.nodes[0]), 0
        labels = [self._labels[self._tree.frame[each]] for each in below]
        names = [module_of(label) for label in labels if label.startswith("<module> (")]
        while below:
            n_lines += len(below)
            below = [child for each in below for child in self._children[each]]
        return import_line(names) + (f" (lines with --imports: {n_lines})" if n_lines else "")

    def _shown(self, node: int) -> list[int]:
        """Return the children that are large by samples or by time, the largest first."""
        return sorted(self._children[node], key=lambda n: (-self._weights[n], -self._times[n], n))

    def _run(self, node: int, chains: bool) -> list[int]:
        """Return the nodes of the run of native frames, or chain, that begins here."""
        nodes = [node]
        while not self._all_frames and node not in self._importing:
            below = self._shown(node)
            if len(below) != 1 or not self._goes_on(node, below[0], chains):
                break
            if self._weights[node] - self._weights[below[0]] >= self._least_weight_ns:
                break
            (node,) = below
            nodes.append(node)
        return nodes

    def _goes_on(self, node: int, below: int, chains: bool) -> bool:
        """Is the only node below part of the row?"""
        if self._is_native(node) and self._is_native(below):
            return True
        if not chains or below in self._importing:
            return False
        return self._is_native(node) == self._is_native(below) and (
            self._calls[node] == self._calls[below]
        )

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
        gpu = ""
        if self.has_gpu:
            times = self._gpu[node], self._own_gpu[node]
            gpu = " " + " ".join(f"{short_time(ns) if ns else '':>10} " for ns in times)
        return f"{total}  {calls}  {share}{gpu}  "

    def _kernel_figures(self, kernel: GpuShare) -> str:
        """Return the figures as columns: launches stand below the calls."""
        time = f"{short_time(kernel.self_ns):>10} "
        return f"{'':10}  {kernel.launches:10,}  {'':7} {time} {time}  "
