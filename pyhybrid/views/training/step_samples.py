"""The samples of a thread within spans of time, by function: what ran in a phase of a step."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from pyhybrid._columns import descend, nearest, take
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.frameworks import torch
from pyhybrid.tables import stacks_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import Spans, periods_of, times
from pyhybrid.views.call_tree.folded_tree import INSIDE, FoldedTree
from pyhybrid.views.labels import shorten_native
from pyhybrid.views.lines.program_lines import program_frames
from pyhybrid.views.training.phases import COMMUNICATION
from pyhybrid.views.training.steps import Step, spans_without

NEARLY_ALL = 0.8  # of the most weight: the innermost function with so much is named
MOST = 0.5


class StepSamples:
    """Hold the samples of a profile by time; weights are nanoseconds of the sampling clock."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._tree = FoldedTree.of(profile)
        self._paths: dict[int, list[int]] = {}
        self._depth: dict[int, int] = {}  # of functions that were met: how far in at most

    def functions(self, thread: int, spans: Spans) -> Counter[int]:
        """Return the weight in or below each Python function or region, by frame."""
        weights: Counter[int] = Counter()
        for stack, weight in self.stacks(thread, spans).items():
            for frame in self._path(stack):
                weights[frame] += weight
        return weights

    def innermost(self, weights: Mapping[int, int], rather: Collection[int] = ()) -> int:
        """Return the innermost nested function with nearly all of the most weight, or one below
        that with MOST of it, of those that are `rather` named; 0: none."""
        most = max(weights.values(), default=0)

        def deepest(frames: Iterable[int], part: float) -> int:
            among = [frame for frame in frames if weights.get(frame, 0) >= part * most > 0]
            return max(among, key=lambda each: (self._depth[each], weights[each]), default=0)

        found, further = deepest(weights, NEARLY_ALL), deepest(rather, MOST)
        both = (path for path in self._paths.values() if found in path and further in path)
        return further if any(path.index(further) > path.index(found) for path in both) else found

    def lines(self, thread: int, spans: Spans, function: int) -> Counter[tuple[int, int]]:
        """Return the weight below a function, by the line that it is on; of a library's by that of
        the program which led to it: frame and line."""
        weights: Counter[tuple[int, int]] = Counter()
        stacks, frame_of = self._profile.stacks, self._profile.nodes.frame
        program = program_frames(self._profile)
        for stack, weight in self.stacks(thread, spans).items():
            row, is_below = stack, False
            while row:
                frame = frame_of[stacks.node[row]]
                is_below |= frame == function
                if is_below and frame in program and (line := stacks.line[row]):
                    weights[frame, line] += weight
                    break
                row = stacks.parent[row]
        return weights

    def modules(self, thread: int, spans: Spans) -> Counter[tuple[str, bool]]:
        """Return the weight in each module of a model and in none within it, by its path: of the
        forward pass, and (True) of the backward pass for it."""
        weights: Counter[tuple[str, bool]] = Counter()
        for stack, weight in self.stacks(thread, spans).items():
            frame = self._profile.frames.get(self._module[self._profile.stacks.node[stack]])
            if frame:
                path = frame.symbol if frame.is_backward else frame.name
                weights[str(path), frame.is_backward] += weight
        return weights

    @cached_property
    def _module(self) -> memoryview:
        """Return each node's nearest module's frame, or that of backward work for one; 0: none."""
        frames, nodes = self._profile.frames, self._profile.nodes
        last = max(frames, default=0)
        marked = bytes(
            n in frames and frames[n].is_object | frames[n].is_backward for n in range(last + 1)
        )
        return take(nodes.frame, nearest(nodes.parent, take(marked, nodes.frame)))

    def sync_stacks(self, thread: int, spans: Spans) -> Counter[int]:
        """Return the weight where the thread waited for a device, or copied from one (torch.toml),
        by stack."""
        return self._in_syncs(self.stacks(thread, spans))

    def sync_stacks_of_run(self) -> Counter[int]:
        """Return that of all threads, all the time."""
        stacks: Counter[int] = Counter()
        for row in self._profile.sampled:
            stacks[row.stack] += row.weight_ns
        return self._in_syncs(stacks)

    def _in_syncs(self, stacks: Counter[int]) -> Counter[int]:
        in_sync, node_of = self._in_sync, self._profile.stacks.node
        return Counter({stack: ns for stack, ns in stacks.items() if in_sync[node_of[stack]]})

    def reducing_ns(self, steps: Iterable[Step]) -> int:
        """Return the weight in steps where the thread exchanged gradients with other ranks, or
        waited for them (torch.toml), but for the phase of collectives."""
        inside, node_of, weight_ns = self._reducing, self._profile.stacks.node, 0
        for step in steps:
            stacks = self.stacks(step.thread, spans_without(step, COMMUNICATION))
            weight_ns += sum(ns for stack, ns in stacks.items() if inside[node_of[stack]])
        return weight_ns

    def weight(self, thread: int, spans: Spans) -> int:
        """Return the weight of all samples there."""
        return self.stacks(thread, spans).total()

    def stacks(self, thread: int, spans: Spans) -> Counter[int]:
        """Return the weight of each stack."""
        weights: Counter[int] = Counter()
        if thread in self._columns:
            at_ns, stacks, periods = self._columns[thread]
            for begin, end in spans:
                for i in range(bisect_left(at_ns, begin), bisect_right(at_ns, end)):
                    weights[stacks[i]] += periods[i]
        period_ns = self._profile.period_ns
        return Counter({stack: weight * period_ns for stack, weight in weights.items()})

    @cached_property
    def _columns(self) -> dict[int, tuple["array[int]", "array[int]", "array[int]"]]:
        """Return times, stacks and weights in periods, by thread."""
        columns: dict[int, tuple[array[int], array[int], array[int]]] = {}
        for chunk in self._profile.program_timeline():
            new = array("Q"), array("I"), array("I")
            at_ns, stacks, periods = columns.setdefault(chunk.thread, new)
            at_ns.extend(times(chunk))
            stacks.extend(stacks_of(chunk.place))
            periods.extend(periods_of(chunk))
        return columns

    def _path(self, stack: int) -> list[int]:
        """Return the Python functions and regions, outermost first, each once."""
        if stack not in self._paths:
            frames = self._profile.frames
            path = self._tree.path(self._tree.of_node[self._profile.stacks.node[stack]])
            shown = [each for each in path if frames[each].kind in ("python", "region")]
            self._paths[stack] = list(dict.fromkeys(shown))
            for at, frame in enumerate(self._paths[stack]):
                self._depth[frame] = max(at, self._depth.get(frame, 0))
        return self._paths[stack]

    @cached_property
    def helpers(self) -> list[int]:
        """Return the threads that carried out a backward pass (torch.toml)."""
        inside, node_of = self._below("engine"), self._profile.stacks.node
        return sorted({row.thread for row in self._profile.sampled if inside[node_of[row.stack]]})

    @cached_property
    def _in_sync(self) -> memoryview:
        """Mark with 1 each node at or below native code that waits for a device."""
        return self._below("syncs")

    @cached_property
    def _reducing(self) -> memoryview:
        """Mark with 1 each node at or below native code that exchanges gradients."""
        return self._below("reduces")

    def _below(self, key: str) -> memoryview:
        """Mark with 1 each node at or below the native functions of this list in torch.toml."""
        names = NamePatterns(torch.steps()[key])
        frames, nodes = self._profile.frames, self._profile.nodes
        inside = bytearray(max(frames, default=0) + 1)
        for frame in frames.values():
            inside[frame.id] = frame.kind == "native" and names.match(shorten_native(frame.name))
        return descend(nodes.parent, take(inside, nodes.frame), INSIDE)
