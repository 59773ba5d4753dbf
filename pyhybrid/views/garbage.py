"""Garbage collections of the interpreter: when each ran, and which function made what they look at.

Those that took long are known one by one (tables.WatchedCall); of all there are sums.  While one
runs no other thread of the process has the GIL.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from pyhybrid.base.structs import Struct
from pyhybrid.tables import COLLECTION, WatchedCall
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.timeline import Spans
from pyhybrid.views.labels import labels_of

LEAST_OF_MAKER = 0.3  # of the objects that lived on: from there on the function is named
OWN_PART = 0.2  # of what is made in a function and below: from there on it makes them itself, too
USUAL_THRESHOLD = 2000  # objects more than before, from which on there is a collection


class Maker(Struct):
    """Hold a function, as views write it, and how many objects it made that lived on, about."""

    function: str
    objects: int


class Garbage:
    """Hold the collections of a profile, by process and in the order of time."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._rows: defaultdict[int, list[WatchedCall]] = defaultdict(list)
        for row in sorted(profile.collections, key=lambda each: each.begin_ns):
            self._rows[profile.threads[row.thread].process].append(row)
        self._begins = {of: [row.begin_ns for row in rows] for of, rows in self._rows.items()}

    def within(self, thread: int, begin_ns: int, end_ns: int) -> list[WatchedCall]:
        """Return those that began in a span, on any thread of this one's process."""
        process = self._profile.threads[thread].process
        begins = self._begins.get(process, [])
        first, last = bisect_left(begins, begin_ns), bisect_right(begins, end_ns)
        return self._rows[process][first:last]

    def ns(self, thread: int, spans: Spans) -> int:
        """Return how long those took that began in these spans, on any thread, until their ends."""
        return sum(
            min(row.end_ns, end_ns) - row.begin_ns
            for begin_ns, end_ns in spans
            for row in self.within(thread, begin_ns, end_ns)
        )

    @property
    def _sums(self) -> list[tuple[int, int]]:
        return [(n, ns) for n, ns in self._profile.meta.get("collections") or ()]

    def maker(self, until_ns: int | None = None, process: int | None = None) -> Maker | None:
        """Return the function in which most objects were made that lived on; None: none stands out.
        Of all processes, or of one.

        A collection comes with every so many objects more than before: so where they come, objects
        are made; those that are freed have not lived on.  Those of the youngest generation decide,
        if they are known: older ones come with every tenth of them.
        """
        rows = [row for of, rows in self._rows.items() if process in (None, of) for row in rows]
        before = [row for row in rows if until_ns is None or row.begin_ns < until_ns]
        young = [row for row in before if generation(row) == 0] or before
        threshold = int(self._profile.meta.get("gc_threshold") or USUAL_THRESHOLD)
        nodes = self._profile.nodes
        own, inside, above = Counter[int](), Counter[int](), defaultdict[int, Counter[int]](Counter)
        of_node = Counter[int]()
        for row in young:
            of_node[row.node] += max(0, threshold - freed(row))
        for node, lived in of_node.items():
            own[nodes.frame[node]] += lived
            path = dict.fromkeys(self._path(node))
            for frame, caller in zip(path, [*path][1:], strict=False):
                above[frame][caller] += lived
            for frame in path:
                inside[frame] += lived
        most = own.most_common(1)
        if not most or most[0][1] <= LEAST_OF_MAKER * own.total():
            return None
        frame = _with_callers(most[0][0], own, inside, above)
        labels = labels_of(self._profile, full_names=False)
        scale = self._of_each_known(generation(young[0]))
        return Maker(labels[frame], round(inside[frame] * scale))

    def _path(self, node: int) -> Iterator[int]:
        """Yield the Python functions and regions from a node outwards."""
        nodes, frames = self._profile.nodes, self._profile.frames
        while node:
            if frames[nodes.frame[node]].kind in ("python", "region"):
                yield nodes.frame[node]
            node = nodes.parent[node]

    def _of_each_known(self, which: int) -> float:
        """Return for how many of a generation each stands that is known by itself."""
        rows = (row for rows in self._rows.values() for row in rows)
        known, sums = sum(generation(row) == which for row in rows), self._sums
        return max(1, sums[which][0] / known) if which < len(sums) else 1


def _with_callers(
    frame: int, own: Counter[int], inside: Counter[int], above: dict[int, Counter[int]]
) -> int:
    """Return a function, or the caller that makes objects by it and by itself: a collection comes
    with the next call or turn of a loop, which may be the caller's."""
    while callers := above[frame].most_common(1):
        caller = callers[0][0]
        if own[caller] < OWN_PART * inside[caller]:
            break
        frame = caller
    return frame


def generation(row: WatchedCall) -> int:
    """Return which generation it went through, and all younger ones: 0, 1 or 2."""
    return (row.raised & 0xFF) - COLLECTION


def freed(row: WatchedCall) -> int:
    """Return how many objects it freed."""
    return row.raised >> 8


def about(number: int) -> str:
    """Return an estimate with its first two digits."""
    return f"about {round(number, 2 - len(str(number))):,}"


@made_once
def garbage_of(profile: Profile) -> Garbage:
    """Return the profile's."""
    return Garbage(profile)
