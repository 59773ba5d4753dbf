"""The samples of the page in order of time, and the places in the source that they were at."""

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from pyhybrid._columns import GIL_SHIFT, inclusive, pairs, take
from pyhybrid.exporters.page import Columns, steps
from pyhybrid.exporters.page.tree import Strings, Tree
from pyhybrid.tables import stacks_of
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.waiting import waiting_nodes

TICK_NS = 10_000  # of the samples' times


class Samples:
    """Hold each sample: when, in what state, and its leaf: paths by function and by line."""

    def __init__(self, profile: Profile, tree: Tree, strings: Strings) -> None:
        """Number the paths by line."""
        self._profile, self._strings = profile, strings
        self._parents, self._places = [0], [(0, 0)]  # of paths by line: (file, line)
        of_stack = self._paths_by_line()
        nodes = array("I", profile.stacks.node)
        self._leaf_of_stack, first = pairs(nodes, of_stack)
        self._leaf_whole = [tree.with_plumbing(node) for node in take(nodes, first)]
        self._leaf_node = take(tree.folded.of_node, take(nodes, first))
        self._leaf_place = take(of_stack, first)
        self._leaf_waits = take(waiting_nodes(profile), take(nodes, first))

    def _paths_by_line(self) -> "array[int]":
        """Return for each stack the path of those of its frames of which the line is known."""
        profile, stacks, frames = self._profile, self._profile.stacks, self._profile.frames
        file_of = {
            number: self._strings.number(frame.file or "") if frame.kind == "python" else 0
            for number, frame in frames.items()
        }
        frame_of = profile.nodes.frame
        known: dict[tuple[int, int, int], int] = {}

        def below(path: int, file: int, line: int) -> int:
            key = (path, file, line)
            if key not in known:
                known[key] = len(self._parents)
                self._parents.append(path)
                self._places.append((file, line))
            return known[key]

        of_stack = array("I", [0])
        for row in range(1, len(stacks.parent)):
            path = of_stack[stacks.parent[row]]
            line = stacks.line[row]
            file = file_of.get(frame_of[stacks.node[row]], 0)
            if line and file:
                path = below(path, file, line)
            for place in profile.places.get(row, ()):
                if place.file and place.line:
                    path = below(path, self._strings.number(place.file), place.line)
            of_stack.append(path)
        return of_stack

    def add(self, columns: Columns) -> list[int]:
        """Add all columns; returns how many samples each thread has."""
        start_ns = self._profile.process.start_ns or 0
        numbers = {thread: at for at, thread in enumerate(self._profile.threads)}
        n_of = [0] * len(numbers)
        ticks, places, at, periods = array("Q"), array("I"), array("I"), array("I")
        last = [0] * len(numbers)
        for chunk in self._profile.timeline():
            thread = numbers[chunk.thread]
            n_of[thread] += len(chunk.place)
            for index, n in sorted(chunk.weights.items()):
                at.append(len(places) + index)
                periods.append(n)
            times = accumulate(chunk.dt_ns, initial=chunk.first_ns - start_ns)
            next(times)
            whole = [max(ns, 0) // TICK_NS for ns in times]
            ticks.extend(steps([max(whole[0], last[thread]), *whole[1:]], last[thread]))
            last[thread] = whole[-1]
            places.extend(chunk.place)
        leaves = take(self._leaf_of_stack, array("I", stacks_of(places)))
        self.weights = self._weights(leaves, at, periods)
        used = sorted(self.weights)
        number = array("I", bytes(4 * len(self._leaf_node)))
        for new, leaf in enumerate(used):
            number[leaf] = new
        columns.add("sample.leaf", array("I", take(number, leaves)))
        columns.add("sample.ticks", ticks)
        columns.add("sample.state", (place >> GIL_SHIFT for place in places))
        columns.add("weight.at", steps(at))
        columns.add("weight.periods", periods)
        columns.add("leaf.node", (self._leaf_node[leaf] for leaf in used))
        columns.add("leaf.plumbing", (self._leaf_whole[leaf] for leaf in used))
        columns.add("leaf.place", (self._leaf_place[leaf] for leaf in used))
        columns.add("leaf.waits", (self._leaf_waits[leaf] for leaf in used))
        columns.add("place.up", (row - parent for row, parent in enumerate(self._parents)))
        columns.add("place.file", (file for file, _ in self._places))
        columns.add("place.line", (line for _, line in self._places))
        return n_of

    @staticmethod
    def _weights(leaves: Sequence[int], at: Sequence[int], periods: Sequence[int]) -> Counter[int]:
        weights = Counter(leaves)
        for index, n in zip(at, periods, strict=True):
            weights[leaves[index]] += n - 1
        return weights

    def by_line(self) -> Counter[tuple[str, int]]:
        """Return the periods of samples that were on each line, or in what it called, by file and
        line; where a line calls itself, more than once."""
        texts = list(self._strings)
        own = array("q", bytes(8 * len(self._parents)))
        for leaf, n in self.weights.items():
            own[self._leaf_place[leaf]] += n
        total = inclusive(array("I", self._parents), own)
        lines: Counter[tuple[str, int]] = Counter()
        for (file, line), n in zip(self._places, total, strict=True):
            if line:
                lines[texts[file], line] += n
        return lines
