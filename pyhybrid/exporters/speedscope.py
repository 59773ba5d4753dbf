"""A profile for speedscope, one view for each thread.

Format: https://www.speedscope.app/file-format-schema.json - frames are shared; a sampled profile is
stacks in order of time, the root first, and their weights.

Weights are put end to end: of CPU time the axis is the thread's own.  Neighbours of one path are
one.  Where there are no samples the exact self times of the paths take their place, in no order.
"""

import json
from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, BinaryIO

from pyhybrid._columns import take
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.viewer_names import CREATOR, encodable, functions, title
from pyhybrid.tables import stack_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import periods_of
from pyhybrid.views.call_tree.folded_tree import FoldedTree

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Weighted = tuple[int, int, int]  # a thread, a folded node, a weight in ns


class Speedscope(Exporter):
    """Write the folded call paths."""

    name = "speedscope"
    help = "for speedscope: each thread's stacks in order of time"
    suffix = ".speedscope.json"

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it."""
        tree = FoldedTree.of(profile)
        stacks = _Stacks(profile, tree)
        total_ns: list[int] = []
        weighted = _samples(profile, tree) if profile.sampled else _exact(profile, tree)
        file.write(b'{"profiles":[')
        for thread, of_thread in groupby(weighted, lambda each: each[0]):
            samples, weights = stacks.of(of_thread)
            row = profile.threads[thread]
            view = {
                "type": "sampled",
                "name": encodable(f"{profile.thread_name(thread)} ({row.tid})"),
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
            file.write(b"," * bool(total_ns) + _json(view))
            total_ns.append(sum(weights))
        rest = {
            "$schema": SCHEMA,
            "exporter": CREATOR,
            "name": title(profile.process),
            "activeProfileIndex": total_ns.index(max(total_ns)) if total_ns else 0,
            "shared": {"frames": stacks.frames},
        }
        file.write(b"]," + _json(rest)[1:])
        return []


def _samples(profile: Profile, tree: FoldedTree) -> Iterator[Weighted]:
    """Yield them by thread, in order of time."""
    of_stack, period_ns = take(tree.of_node, array("I", profile.stacks.node)), profile.period_ns
    for chunk in profile.program_timeline():
        for place, periods in zip(chunk.place, periods_of(chunk), strict=True):
            yield chunk.thread, of_stack[stack_of(place)], periods * period_ns


def _exact(profile: Profile, tree: FoldedTree) -> Iterator[Weighted]:
    """Yield them by thread."""
    exact, of_node = profile.exact, tree.of_node
    for thread, node, self_ns in zip(exact.thread, exact.node, exact.self_ns, strict=True):
        if self_ns:
            yield thread, of_node[node], self_ns


class _Stacks:
    """Hold folded nodes as stacks of frames, which are numbered as they are needed."""

    def __init__(self, profile: Profile, tree: FoldedTree) -> None:
        self.frames: list[dict[str, Any]] = []
        self._tree, self._functions = tree, functions(profile)
        self._numbers: dict[int, int] = {}
        self._made: dict[int, list[int]] = {}

    def of(self, weighted: Iterable[Weighted]) -> tuple[list[list[int]], list[int]]:
        """Return the samples and weights of one thread."""
        samples: list[list[int]] = []
        weights: list[int] = []
        last = -1
        for _, node, weight_ns in weighted:
            if node == last:
                weights[-1] += weight_ns
                continue
            if node not in self._made:
                self._made[node] = list(map(self._number, self._tree.path(node)))
            samples.append(self._made[node])
            weights.append(weight_ns)
            last = node
        return samples, weights

    def _number(self, frame: int) -> int:
        if frame not in self._numbers:
            self._numbers[frame] = len(self.frames)
            name, file, line = self._functions[frame]
            self.frames.append(
                {"name": name} | ({"file": file} if file else {}) | ({"line": line} if line else {})
            )
        return self._numbers[frame]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
