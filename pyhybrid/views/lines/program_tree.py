"""The program's own functions as a short tree, with what each called in libraries as one row.

Native code is its Python caller's, and so is what a library's function calls within libraries; what
these call of the program's hangs below.  What an import statement runs is one row, and so is a
function that calls itself.  All threads are one tree.  Threads without Python are a row each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heappop, heappush
from operator import and_, eq, ne

from pyhybrid._columns import add_up, at_least, descend, inclusive, paths, rows_from, take
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import import_line
from pyhybrid.views.labels import labels_of, module_of
from pyhybrid.views.lines.program_lines import program_frames

LEAST_SHARE = 0.01  # of all samples, or of all exact time
LEAST_OUTSIDE = 0.05  # of native code below no Python function
PASSED_ON = 0.95  # a library's function is no row if so much of it is one function of the program's

# What a node's frame is, and a node's state by that and by what is above it.  OUTSIDE: native code
# below no Python function; + FOLDED: the node is a part of the row above.
_PROGRAM, _LIBRARY, _REST, _OUTSIDE, _IMPORT = range(1, 6)
_FOLDED = 8


def _step(above: int, kind: int) -> int:
    row = above & ~_FOLDED
    if row == _IMPORT or (kind == _REST and row) or (kind, row) == (_LIBRARY, _LIBRARY):
        return row | _FOLDED
    return _OUTSIDE if kind == _REST else kind


_STEPS = bytes(_step(above, kind) for above in range(2 * _FOLDED) for kind in range(256))
_IS_ROW = bytes(state < _FOLDED for state in range(256))
_HOW = bytes(1 if state & _FOLDED else 4 for state in range(256))  # columns.pyi, paths


class TreeRow(Record):
    """Hold a function of the program, or one that it called of a library's, on its path.

    Rows are in the order of the tree: `depth` says below which row each stands.  Weights and times
    are inclusive, in nanoseconds; `share` (0..1) is of all samples or of all exact time, whichever
    is more.
    """

    depth: int
    function: str
    kind: str  # program, library, import, thread (native code below no Python function)
    calls: int | None  # None: its calls were not counted
    exact_total_ns: int | None
    weight_ns: int
    share: float


def program_tree(profile: Profile, most: int) -> list[TreeRow]:
    """Return the rows with the largest shares, at most so many."""
    return profile.once(_ProgramTree).rows(most)


class _ProgramTree:
    def __init__(self, profile: Profile) -> None:
        folded = FoldedTree.of(profile)
        self._kind_of_frame = _kinds_of_frames(profile)
        kinds = bytearray(take(self._kind_of_frame, folded.frame))
        for node in rows_from(folded.imports.outer, 1):
            kinds[node] = _IMPORT
        states = bytes(descend(folded.parent, kinds, _STEPS))
        of_folded, self._parent, self._frame = paths(
            folded.parent, folded.frame, states.translate(_HOW)
        )
        self._profile, n = profile, len(self._parent)
        self._imports = {of_folded[node] for node in rows_from(folded.imports.outer, 1)}
        self._weights = inclusive(self._parent, add_up(of_folded, folded.own_ns, n))
        self._weight_ns = self._weights[0]
        self._count(folded, of_folded, states)
        self._imported = self._modules(folded, of_folded)
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        large = set(rows_from(self._weights, max(1, int(LEAST_SHARE * self._weight_ns))))
        large.update(rows_from(self._times, max(1, int(LEAST_SHARE * self._time_ns))))
        for node in sorted(large - {0}):
            least = LEAST_OUTSIDE if self._kind(node) == _OUTSIDE else LEAST_SHARE
            if self._share(node) >= least:
                self._children[self._parent[node]].append(node)

    def _kind(self, row: int) -> int:
        kind = self._kind_of_frame[self._frame[row]]
        return _IMPORT if row in self._imports else _OUTSIDE if kind == _REST else kind

    def _count(self, folded: FoldedTree, of_folded: memoryview, states: bytes) -> None:
        """Add up exact calls and times: of a recursion the time of the outermost."""
        nodes, exact, n = self._profile.nodes, self._profile.exact, len(self._parent)
        at = take(folded.of_node, exact.node)
        rows = take(of_folded, at)
        is_own = map(eq, take(folded.frame, at), take(nodes.frame, exact.node))
        is_row = bytes(map(and_, is_own, take(states.translate(_IS_ROW), at)))
        is_outer = bytes(map(ne, take(of_folded, take(folded.parent, at)), rows))
        self._calls = add_up(rows, exact.calls, n, is_row)
        outer = bytes(map(and_, is_row, is_outer))
        self._times = at_least(self._parent, add_up(rows, exact.total_ns, n, outer))
        self._time_ns = self._times[0]

    def _modules(self, folded: FoldedTree, of_folded: memoryview) -> dict[int, list[str]]:
        """Return the modules that each import brought, the heaviest first."""
        found = folded.imports
        labels, frame = labels_of(self._profile), folded.frame
        totals = inclusive(folded.parent, folded.own_ns)
        exact = self._profile.exact
        times = add_up(take(folded.of_node, exact.node), exact.total_ns, len(folded.parent))
        brought: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for node in rows_from(found.top, 1):
            if size := max(totals[node], times[node]):
                brought[of_folded[node]][frame[node]] += size
        return {
            row: [module_of(label) for _, label in sorted(_sized(modules, labels))]
            for row, modules in brought.items()
        }

    def _share(self, row: int) -> float:
        of_samples = self._weights[row] / self._weight_ns if self._weight_ns else 0.0
        return max(of_samples, self._times[row] / self._time_ns if self._time_ns else 0.0)

    def _passes_on(self, row: int) -> bool:
        """Is it a library's, and but for one function of the program's nothing?"""
        if self._kind(row) not in (_LIBRARY, _OUTSIDE) or len(self._children[row]) != 1:
            return False
        (below,) = self._children[row]
        return (
            self._weights[below] >= PASSED_ON * self._weights[row]
            and self._times[below] >= PASSED_ON * self._times[row]
        )

    def rows(self, most: int) -> list[TreeRow]:
        chosen: defaultdict[int, list[int]] = defaultdict(list)  # by the row above
        heap = [(-1.0, "", 0, 0)]  # the root's children are offered first
        n_shown = 0
        while heap and n_shown <= most:
            *_, row, above = heappop(heap)
            shown = row and not self._passes_on(row)
            if shown:
                if n_shown == most:
                    break
                chosen[above].append(row)
                n_shown += 1
            for child in self._children[row]:
                heappush(heap, (*self._rank(child), child, row if shown else above))
        found, todo = list[TreeRow](), [(row, 0) for row in self._sorted(chosen[0])]
        while todo:
            row, depth = todo.pop()
            found.append(self._row(row, depth))
            todo += [(each, depth + 1) for each in self._sorted(chosen[row])]
        return found

    def _sorted(self, rows: list[int]) -> list[int]:
        """Return rows with the largest last."""
        return sorted(rows, key=self._rank, reverse=True)

    def _rank(self, row: int) -> tuple[float, str]:
        """Return what orders rows, the largest first; a merged profile numbers them anew."""
        return -self._share(row), self._label(row)

    def _label(self, row: int) -> str:
        if self._kind(row) == _IMPORT:
            return import_line(self._imported.get(row, []))
        return labels_of(self._profile, False)[self._frame[row]]

    def _row(self, row: int, depth: int) -> TreeRow:
        kind = self._kind(row)
        calls, total_ns = self._calls[row], self._times[row]
        counted = bool(self._calls[row])
        return TreeRow(
            *(depth, self._label(row), _NAMES[kind]),
            calls if counted else None,
            total_ns if counted else None,
            *(self._weights[row], self._share(row)),
        )


_NAMES = {_PROGRAM: "program", _LIBRARY: "library", _OUTSIDE: "thread", _IMPORT: "import"}


def _kinds_of_frames(profile: Profile) -> bytes:
    own, of_frame = program_frames(profile), bytearray(max(profile.frames, default=0) + 1)
    for frame in profile.frames.values():
        of_frame[frame.id] = _REST
        if frame.kind == "python":
            of_frame[frame.id] = _PROGRAM if frame.id in own else _LIBRARY
        elif frame.kind == "region":
            of_frame[frame.id] = _PROGRAM
    return bytes(of_frame)


def _sized(frames: Counter[int], labels: dict[int, str]) -> list[tuple[int, str]]:
    """Return their labels, the heaviest first when sorted; a merged profile numbers them anew."""
    return [(-size, labels[each]) for each, size in frames.items()]
