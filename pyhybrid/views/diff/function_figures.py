"""What one profile has of each function, under a name that holds in other profiles, too.

A function is known by its qualified name and its file as seen from its import path or from the
program's working directory, native code by its short name and its library's: neither by lines nor
by addresses.  All threads are summed; figures are nanoseconds.  Time in which threads of a pool
spin (spinning_threads.py) is in none of them, but for itself.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, pairwise
from math import ceil
from typing import NamedTuple

from pyhybrid._columns import add_up, inclusive, nearest, outermost, take
from pyhybrid.base.structs import Struct
from pyhybrid.tables import Frame, stacks_of
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.spinning_threads import spinning
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.labels import shorten_file, shorten_native

NAMELESS = "[nameless]"  # what a library's functions without names are called together
# How regular samples are is seen of so many of a run, and of functions with this share of its time.
MOST_FOLLOWED, LEAST_FOLLOWED = 20_000, 0.001


class Function(NamedTuple):
    """Name a function in any profile; `place`: a file, or a library's name."""

    kind: str  # python, native, kernel, region
    name: str
    place: str

    @property
    def label(self) -> str:
        """Return `name (place)`; regions have none."""
        name = f"[{self.name}]" if self.kind == "region" else self.name
        return f"{name} ({self.place})" if self.place else name


class Sampled(NamedTuple):
    """Hold sampled time and its variance by the error of counting."""

    time_ns: float
    variance: float


class Figures(Struct):
    """Hold one function's: `total` with what it called, `self` in itself, `below` (of Python
    functions) in itself and the native code that it called; `calls` and `time_ns` (their total) are
    exact, and None where nothing was traced."""

    samples: int  # in `total`
    total: Sampled
    self: Sampled
    below: Sampled
    calls: int | None = None
    time_ns: int | None = None


class RunFigures(Struct):
    """Hold one profile's; `all` is the whole program, `absent` a function that was not seen.

    Own time is that of the innermost Python function, so that each sample is of one function's own
    time, of native code alone that of the function itself.
    """

    functions: dict[Function, Figures]
    all: Figures
    within: dict[tuple[Function, Function], int]  # of the one's own time, ns within the other
    spinning_ns: int
    absent: Figures
    traced: bool


def run_figures(profile: Profile) -> RunFigures:
    """Collect them."""
    functions = functions_of(profile)
    nothing = Sampled(0, profile.period_ns**2)  # of less than a sample
    absent = Figures(0, nothing, nothing, nothing)
    none = Function("", "", "")  # number 0
    samples = _Samples(profile, functions, [none, *dict.fromkeys(functions.values())])
    figures = samples.figures()
    if profile.exact:
        for frame, tally in function_calls(profile, with_callers=False).items():
            if frame in functions:
                each = figures.setdefault(functions[frame], absent.replaced())
                each.calls = (each.calls or 0) + tally.calls
                each.time_ns = (each.time_ns or 0) + tally.total_ns
    spinning_ns, traced = samples.of_nodes.spinning_ns, bool(profile.exact)
    return RunFigures(figures, samples.all(), samples.within(), spinning_ns, absent, traced)


def functions_of(profile: Profile) -> dict[int, Function]:
    """Return them by frame id; pseudo-frames are none."""
    directory = str(profile.meta.get("cwd") or "")
    return {
        frame.id: _function(profile, frame, directory)
        for frame in profile.frames.values()
        if frame.kind != "pseudo"
    }


def _function(profile: Profile, frame: Frame, directory: str) -> Function:
    if frame.kind == "python":
        return Function(frame.kind, frame.name, shorten_file(frame.file or "?", directory))
    if frame.kind != "native":
        return Function(frame.kind, frame.name, "")
    library = os.path.basename(profile.modules[frame.module].path) if frame.module else ""
    if frame.is_nameless:
        return Function(frame.kind, NAMELESS if library else frame.name, library)
    return Function(frame.kind, shorten_native(frame.name), library)


class NodeSamples(Struct):
    """Hold each folded node by itself: samples, their weight in ns, its variance by the error of
    counting, in periods squared; and the time in which pools spun."""

    samples: array[int]
    weights: array[int]
    variances: array[int]
    spinning_ns: int


def samples_of_nodes(profile: Profile) -> NodeSamples:
    """Return those of FoldedTree.of(profile)."""
    tree, period_ns = FoldedTree.of(profile), profile.period_ns
    n_bytes = 8 * len(tree.parent)
    samples, weights, variances = (array("q", bytes(n_bytes)) for _ in range(3))
    found = NodeSamples(samples, weights, variances, 0)
    spins = spinning(profile)
    for row in profile.sampled:
        unfolded = profile.stacks.node[row.stack]
        node = tree.of_node[unfolded]
        if spins[unfolded]:
            found.spinning_ns += row.weight_ns
            continue
        periods = row.weight_ns / period_ns
        found.samples[node] += row.samples
        found.weights[node] += row.weight_ns
        # A sample that stands for several periods of work is one draw; a wait was seen throughout.
        found.variances[node] += round(periods if row.waits else periods**2 / (row.samples or 1))
    return found


class _Samples:
    """Add up the samples of a profile by function; a function is its number, from 1 on."""

    def __init__(self, profile: Profile, functions: dict[int, Function], names: list[Function]):
        self._profile, self._tree, self._names = profile, FoldedTree.of(profile), names
        numbers = {each: number for number, each in enumerate(names)}
        n_frames = max(profile.frames, default=0) + 1
        of_frame = array("I", bytes(4 * n_frames))
        python = bytearray(n_frames)
        for frame, function in functions.items():
            of_frame[frame] = numbers[function]
            python[frame] = function.kind == "python"
        parent, frame_of = self._tree.parent, self._tree.frame
        self._label = take(of_frame, frame_of)
        self._innermost = take(self._label, nearest(parent, take(python, frame_of)))
        self.of_nodes = samples_of_nodes(profile)
        self._all_ns, self.n = sum(self.of_nodes.weights), sum(self.of_nodes.samples)
        is_outer = outermost(parent, self._label, b"\1" * len(self._label))
        self._totals = [
            add_up(self._label, inclusive(parent, each), len(names), is_outer)
            for each in (self.of_nodes.samples, self.of_nodes.weights, self.of_nodes.variances)
        ]
        least_ns = self._all_ns * LEAST_FOLLOWED
        followed = range(1, len(names))
        self._followed = [number for number in followed if self._totals[1][number] > least_ns]
        self._callers = self._bits()
        self._borders, self._own_borders = self._count_borders()

    def _bits(self) -> dict[int, int]:
        """Return of each node with samples on it or below it which functions are on its path, of
        those that are followed: a bit for each."""
        bits = {number: 1 << at for at, number in enumerate(self._followed)}
        parent, label = self._tree.parent, self._label
        below = inclusive(parent, self.of_nodes.weights)
        found = {0: 0}
        for node in compress(range(1, len(below)), below[1:]):
            found[node] = found[parent[node]] | bits.get(label[node], 0)
        return found

    def _count_borders(self) -> tuple[Counter[int], Counter[int]]:
        """Count how often, of samples in their order, one is within a function and the next is not,
        and the same of its own time, as if all were followed; empty where their order is unknown.

        Where a function runs for less than a period at a time, that is by chance.  Where it runs
        for long, ticks at even distances count it well: they are one off at its borders, at most.
        """
        found, own = Counter[int](), Counter[int]()
        if self.of_nodes.spinning_ns:  # is in no function, but in the order
            return found, own
        node_of, folded = self._profile.stacks.node, self._tree.of_node
        share = min(1.0, MOST_FOLLOWED / self.n) if self.n else 0.0
        neighbours: Counter[tuple[int, int]] = Counter()
        for chunk in self._profile.program_timeline():
            stacks = stacks_of(chunk.place[: ceil(len(chunk.place) * share)])
            neighbours.update(pairwise(folded[node_of[stack]] for stack in stacks))
        if neighbours:
            found.update(dict.fromkeys(self._followed, 0))
            own.update(dict.fromkeys(self._followed, 0))
        times = self.n / max(neighbours.total(), 1)
        for (one, other), n in neighbours.items():
            changed = self._callers.get(one, 0) ^ self._callers.get(other, 0)
            for number in _numbers(changed, self._followed):
                found[number] += round(n * times)
            if self._innermost[one] != self._innermost[other]:
                own[self._innermost[one]] += round(n * times)
                own[self._innermost[other]] += round(n * times)
        return found, own

    def figures(self) -> dict[Function, Figures]:
        """Return those of functions that have samples."""
        columns = self.of_nodes.weights, self.of_nodes.variances
        selves = [add_up(self._label, each, len(self._names)) for each in columns]
        below = [add_up(self._innermost, each, len(self._names)) for each in columns]
        figures, own = {}, self._own_borders
        for number in range(1, len(self._names)):
            n, total, by_chance = (each[number] for each in self._totals)
            if n:
                figures[self._names[number]] = Figures(
                    n,
                    self._sampled(total, by_chance, self._borders.get(number)),
                    self._sampled(selves[0][number], selves[1][number]),
                    self._sampled(below[0][number], below[1][number], own.get(number)),
                )
        return figures

    def _sampled(self, time_ns: int, by_chance: int, borders: int | None = None) -> Sampled:
        """Return it; of a count whose borders are known half as many are its variance."""
        period_ns = self._profile.period_ns
        variance = by_chance if borders is None else min(by_chance, borders / 2)
        return Sampled(time_ns, max(variance, 1) * period_ns**2)

    def all(self) -> Figures:
        """Return those of the whole: of a thread all but less than a period is sampled."""
        whole = self._sampled(self._all_ns, sum(self.of_nodes.variances))
        if self._borders:
            whole = self._sampled(self._all_ns, len(self._profile.threads))
        return Figures(self.n, whole, whole, whole)

    def within(self) -> dict[tuple[Function, Function], int]:
        """Return of each function's own time how much is within another one."""
        names, weights = self._names, self.of_nodes.weights
        found: Counter[tuple[int, int]] = Counter()
        for node in compress(range(len(weights)), weights):
            if own := self._innermost[node] or self._label[node]:
                for number in _numbers(self._callers[node], self._followed):
                    found[own, number] += weights[node]
        return {(names[own], names[number]): ns for (own, number), ns in found.items()}


def _numbers(bits: int, followed: Sequence[int]) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield followed[lowest.bit_length() - 1]
        bits ^= lowest
