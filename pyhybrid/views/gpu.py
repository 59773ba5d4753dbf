"""The GPU's work of a profile: below which calls, when it ran, and by which step it was launched.

Time on the GPU is that of kernels, copies and fills, added up: of several at once it is more than
the time that passed.  It belongs to what launched it, in both passes: the backward pass's work to
the call that made the node.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from heapq import nsmallest
from itertools import accumulate

from pyhybrid._columns import add_up, inclusive, outermost
from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.tables.timeline import Spans
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.labels import labels_of, shorten_native

N_MOST = 10


class GpuShare(Struct):
    """Hold what a function launched, itself and with what it called; or a kernel name's time."""

    name: str
    launches: int
    self_ns: int
    total_ns: int


class GpuSummary(Record):
    """Hold the GPU's part of `report --json`.

    `recorded_ns`: for so long its work was recorded; `busy`: the share of that in which it did
    any, on average of the devices; `below_no_call_ns`: the part of `total_ns` of which it is not
    known what launched it.  `functions` and `kernels`: those with most of their own.
    """

    devices: int
    launches: int
    total_ns: int
    below_no_call_ns: int
    recorded_ns: int
    busy: float
    functions: list[GpuShare]
    kernels: list[GpuShare]


def gpu_summary(profile: Profile, all_frames: bool = False) -> GpuSummary | None:
    """Return the summary; None: nothing is known of a GPU."""
    if not profile.gpu:
        return None
    recorded_ns = sum(each.end_ns - each.begin_ns for each in profile.gpu_windows)
    busy = busy_spans(profile)
    busy_ns = sum(end - begin for spans in busy.values() for begin, end in spans)
    kernels: dict[str, GpuShare] = {}
    for work in profile.gpu:
        kernel = kernels.setdefault(work.name, GpuShare(work.name, 0, 0, 0))
        kernel.launches += work.launches
        kernel.self_ns += work.ns
        kernel.total_ns += work.ns
    return GpuSummary(
        devices=len(busy),
        launches=sum(work.launches for work in profile.gpu),
        total_ns=sum(work.ns for work in profile.gpu),
        below_no_call_ns=sum(work.ns for work in profile.gpu if not work.node),
        recorded_ns=recorded_ns,
        busy=min(1.0, busy_ns / (recorded_ns * len(busy))) if recorded_ns and busy else 0.0,
        functions=_most(_functions(profile, all_frames)),
        kernels=_most(kernels.values()),
    )


def _most(shares: Iterable[GpuShare]) -> list[GpuShare]:
    return sorted(shares, key=lambda each: (-each.self_ns, each.name))[:N_MOST]


def _functions(profile: Profile, all_frames: bool) -> Iterable[GpuShare]:
    tree = FoldedTree.of(profile, all_frames)
    n, n_frames = len(tree.parent), max(profile.frames, default=0) + 1
    launches = array("q", bytes(8 * n))
    for work in profile.gpu:
        launches[tree.of_node[work.node]] += work.launches
    own = gpu_times(profile, tree)
    outer = outermost(tree.parent, tree.frame, bytes([1]) * n)
    total = add_up(tree.frame, inclusive(tree.parent, own), n_frames, outer)
    own_of, n_of = (add_up(tree.frame, each, n_frames) for each in (own, launches))
    labels = labels_of(profile, full_names=False, all_frames=all_frames)
    return [
        GpuShare(labels[frame], n_of[frame], own_of[frame], total[frame])
        for frame in range(1, n_frames)
        if n_of[frame]
    ]


def gpu_times(profile: Profile, tree: FoldedTree) -> array[int]:
    """Return for each folded node what it launched itself; of the root nothing."""
    own = array("q", bytes(8 * len(tree.parent)))
    for work in profile.gpu:
        own[tree.of_node[work.node]] += work.ns
    own[0] = 0
    return own


def kernels(
    profile: Profile, tree: FoldedTree, least_ns: int, most: int
) -> dict[int, list[GpuShare]]:
    """Return kernels, copies and fills by the folded node that launched them, the longest first: at
    most so many, and none that took less; those of the backward pass are marked so."""
    sums: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for work in profile.gpu:
        name = shorten_native(work.name) + " (backward)" * work.backward
        found = sums[tree.of_node[work.node], name]
        found[0] += work.launches
        found[1] += work.ns
    shares = [(node, GpuShare(name, n, ns, ns)) for (node, name), (n, ns) in sums.items()]
    large = (each for each in shares if each[0] and each[1].self_ns >= least_ns)
    of_node: defaultdict[int, list[GpuShare]] = defaultdict(list)
    for node, share in nsmallest(most, large, key=lambda e: (-e[1].self_ns, e[1].name)):
        of_node[node].append(share)
    return of_node


def busy_spans(profile: Profile) -> dict[int, Spans]:
    """Return when each device did anything, in order and apart; sums alone are not there."""
    device = {work.id: work.device for work in profile.gpu}
    busy: dict[int, Spans] = {number: [] for number in sorted(set(device.values()))}
    for each in profile.gpu_activities:
        spans = busy[device[each.work]]
        if spans and each.begin_ns <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], each.end_ns)
        else:
            spans.append((each.begin_ns, each.end_ns))
    return busy


def idle_spans(profile: Profile) -> Spans:
    """Return when no device did anything, of the time that was recorded."""
    events = sorted(span for spans in busy_spans(profile).values() for span in spans)
    idle: Spans = []
    for window in profile.gpu_windows:
        since = window.begin_ns
        first = max(0, bisect_left(events, (window.begin_ns, 0)) - 1)
        for begin, end in events[first:]:
            if begin >= window.end_ns:
                break
            if begin > since:
                idle.append((since, begin))
            since = max(since, end)
        if since < window.end_ns:
            idle.append((since, window.end_ns))
    return idle


class LaunchedWork:
    """Sum the time on the GPU of what was launched within spans of time, on whatever thread."""

    def __init__(self, profile: Profile) -> None:
        self._windows = [(each.begin_ns, each.end_ns) for each in profile.gpu_windows]
        launched = sorted(
            (each.launch_ns, each.end_ns - each.begin_ns)
            for each in profile.gpu_activities
            if each.launch_ns is not None
        )
        self._at = [at for at, _ in launched]
        self._sums = [0, *accumulate(ns for _, ns in launched)]

    def recorded(self, begin_ns: int, end_ns: int) -> bool:
        """Was the GPU's work recorded all that time?"""
        return any(begin <= begin_ns and end_ns <= end for begin, end in self._windows)

    def ns(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the time in all of them."""
        return sum(
            self._sums[bisect_left(self._at, end)] - self._sums[bisect_left(self._at, begin)]
            for begin, end in spans
        )
