"""What one profile has of each function, under a name that holds in other profiles, too.

A function is known by its qualified name and its file as seen from its import path or from the
program's working directory, native code by its short name and its library's: neither by lines nor
by addresses.  All threads are summed; figures are nanoseconds.  Time in which threads of a pool
spin (spinning_threads.py) is in none of them, but for itself.
"""

from __future__ import annotations

import os
from array import array
from typing import NamedTuple

from pyhybrid._columns import add_up, inclusive, nearest, outermost, take
from pyhybrid.base.structs import Struct
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.spinning_threads import spinning
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.labels import shorten_file, shorten_native

NAMELESS = "[nameless]"  # what a library's functions without names are called together


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
    """Hold sampled time and its variance by the error of counting (Poisson)."""

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
    """Hold one profile's; `all` is the whole program, `absent` a function that was not seen."""

    functions: dict[Function, Figures]
    all: Figures
    spinning_ns: int
    absent: Figures
    traced: bool


def run_figures(profile: Profile) -> RunFigures:
    """Collect them."""
    functions = functions_of(profile)
    numbers = {each: number for number, each in enumerate(dict.fromkeys(functions.values()), 1)}
    figures, whole, spinning_ns = _sampled(profile, functions, numbers)
    nothing = Sampled(0, profile.period_ns**2)  # of less than a sample
    absent = Figures(0, nothing, nothing, nothing)
    if profile.exact:
        for frame, tally in function_calls(profile, with_callers=False).items():
            if frame in functions:
                each = figures.setdefault(functions[frame], absent.replaced())
                each.calls = (each.calls or 0) + tally.calls
                each.time_ns = (each.time_ns or 0) + tally.total_ns
    return RunFigures(figures, whole, spinning_ns, absent, bool(profile.exact))


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


def _sampled(
    profile: Profile, functions: dict[int, Function], numbers: dict[Function, int]
) -> tuple[dict[Function, Figures], Figures, int]:
    tree, period_ns = FoldedTree.of(profile), profile.period_ns
    n_frames, n = max(profile.frames, default=0) + 1, len(numbers) + 1
    of_frame = array("I", bytes(4 * n_frames))
    python = bytearray(n_frames)
    for frame, function in functions.items():
        of_frame[frame] = numbers[function]
        python[frame] = function.kind == "python"
    label = take(of_frame, tree.frame)
    of_nodes = samples_of_nodes(profile)
    columns = samples, weights, variances = of_nodes.samples, of_nodes.weights, of_nodes.variances
    everywhere = b"\1" * len(label)
    is_outer = outermost(tree.parent, label, everywhere)
    innermost = take(label, nearest(tree.parent, take(python, tree.frame)))
    totals = [add_up(label, inclusive(tree.parent, each), n, is_outer) for each in columns]
    selves = [add_up(label, each, n) for each in (weights, variances)]
    below = [add_up(innermost, each, n) for each in (weights, variances)]

    def sampled(weight_ns: int, variance: int) -> Sampled:
        return Sampled(weight_ns, max(variance, 1) * period_ns**2)

    whole = sampled(sum(weights), sum(variances))
    figures = {}
    for function, number in numbers.items():
        if totals[0][number]:
            total, alone, with_native = (
                sampled(weight[number], variance[number])
                for *_, weight, variance in (totals, selves, below)
            )
            figures[function] = Figures(totals[0][number], total, alone, with_native)
    return figures, Figures(sum(samples), whole, whole, whole), of_nodes.spinning_ns
