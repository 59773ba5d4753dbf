"""What threads were at in single calls: samples by the turns of these, each for a stretch of time.

Of a thread that waits the sampler keeps the last path for as long as it runs next to nothing; so
that path holds from when it was sampled, in the call that ran then, until the thread begins or ends
one that is kept, at most.  Which thread held what another one waited for is not recorded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from pyhybrid._columns import descend, take
from pyhybrid.tables import gil_name, stack_of, waits
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import periods_of, times
from pyhybrid.views.call_tree.waiting import IDLE, LOOP, POOL, lock_nodes, states_of
from pyhybrid.views.wait_pairs import Lines, Place

RAN, GIL, LOCKS, QUEUES, ASLEEP = "ran", "the GIL", "locks", "queues", "off the CPU"
REST, LOOP_BUSY, AWAITED = "unknown", "loop", "awaited"
NOT_RUN = "not run"  # all of these, where the clock sees no waits
NOWHERE = Place("", "")


class Sample(NamedTuple):
    """Hold a sample: the time that it stands for, its path, and what its thread was at."""

    begin: int
    end: int
    stack: int
    part: str
    holds_gil: bool


class Turn(NamedTuple):
    """Hold for how long a call was on a thread."""

    thread: int
    begin: int
    end: int


class Within(NamedTuple):
    """Hold a sample, and what of the time that it stands for is in a turn."""

    sample: Sample
    turn: Turn
    is_held: bool

    @property
    def span(self) -> tuple[int, int, int]:
        """Return the thread, and from when to when."""
        begin, end = max(self.sample.begin, self.turn.begin), min(self.sample.end, self.turn.end)
        return self.turn.thread, begin, end

    @property
    def ns(self) -> int:
        """Return for how much time it stands: of a wait of several periods what is in the turn, of
        another one all, as of those of which the turns that were just as short have none."""
        if not self.is_held:
            return self.sample.end - self.sample.begin
        _, begin, end = self.span
        return end - begin


class Busy:
    """Hold stretches of time in order, and how long they are together."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self.begins, self.ends = array("q"), array("q")
        for begin, end in spans:
            begin = max(begin, self.ends[-1]) if self.ends else begin
            if begin < end:
                self.begins.append(begin)
                self.ends.append(end)
        lengths = (end - begin for begin, end in zip(self.begins, self.ends, strict=True))
        self._sums = array("q", accumulate(lengths, initial=0))

    def ns(self, begin: int, end: int) -> int:
        """Return how much of that time they are."""
        return self._until(end) - self._until(begin) if begin < end else 0

    def _until(self, at: int) -> int:
        n = bisect_left(self.ends, at)
        inside = at - self.begins[n] if n < len(self.begins) and self.begins[n] < at else 0
        return self._sums[n] + inside


_BELOW = bytes(kind or state for state in range(2) for kind in range(256))


class TurnSamples:
    """Hold those of a profile by thread, and by process which threads there are."""

    def __init__(self, profile: Profile) -> None:
        self._profile, self._lines = profile, Lines(profile)
        self.of: defaultdict[int, list[Sample]] = defaultdict(list)
        kinds: dict[int, tuple[str, bool]] = {}
        is_wall = profile.meta.get("clock") == "wall"
        states, locks = states_of(profile), lock_nodes(profile)
        own, node_of, period_ns = profile.own_stacks, profile.stacks.node, profile.period_ns

        def kind(place: int) -> tuple[str, bool]:
            node, gil = node_of[stack_of(place)], gil_name(place)
            if not is_wall:  # all of it is CPU time, also what the GIL's own code took
                return RAN, gil == "held"
            if gil == "waiting":
                return GIL, False
            if not waits(place):
                return RAN, gil == "held"
            if states[node] in (LOOP, POOL):
                return AWAITED, False
            return (QUEUES if states[node] == IDLE else LOCKS if locks[node] else ASLEEP), False

        edges = _edges(profile)
        for chunk in profile.timeline():
            into = self.of[chunk.thread]
            for at_ns, place, n in zip(times(chunk), chunk.place, periods_of(chunk), strict=True):
                if stack_of(place) in own:
                    continue
                if place not in kinds:
                    kinds[place] = kind(place)
                begin = at_ns - n * period_ns
                if n > 1 and (ends := edges.get(chunk.thread)):
                    next_edge = bisect_right(ends, begin)
                    at_ns = min([at_ns, *ends[next_edge : next_edge + 1]])
                into.append(Sample(begin, at_ns, stack_of(place), *kinds[place]))
        for samples in self.of.values():
            samples.sort(key=lambda each: each.end)
        self._ends = {t: array("q", (s.end for s in each)) for t, each in self.of.items()}
        self._busy: dict[int, Busy] = {}
        self._in_process: defaultdict[int, list[int]] = defaultdict(list)
        for thread in self.of:
            self._in_process[profile.threads[thread].process].append(thread)

    def busy(self, thread: int) -> Busy:
        """Return when a thread had something to do."""
        if thread not in self._busy:
            parts = (RAN, GIL, LOCKS, ASLEEP)
            spans = ((s.begin, s.end) for s in self.of[thread] if s.part in parts)
            self._busy[thread] = Busy(spans)
        return self._busy[thread]

    def by_turn(self, turns: Iterable[Turn], frames: set[int]) -> dict[Turn, list[Within]]:
        """Return the samples of each turn, of those that do not meet on a thread, with one of these
        functions on their path: of a wait of several periods where it began, else where it is."""
        of_thread: defaultdict[int, list[Turn]] = defaultdict(list)
        for turn in turns:
            of_thread[turn.thread].append(turn)
        nodes, node_of = self._profile.nodes, self._profile.stacks.node
        marked = bytes(f in frames for f in range(max(self._profile.frames, default=0) + 1))
        inside = descend(nodes.parent, take(marked, nodes.frame), _BELOW)
        period_ns, found = self._profile.period_ns, dict[Turn, list[Within]]()
        for thread, each in of_thread.items():
            each.sort()
            begins = [turn.begin for turn in each]
            for sample in self.of.get(thread, ()):
                is_held = sample.end - sample.begin > period_ns
                at = bisect_right(begins, sample.begin if is_held else sample.end) - 1
                turn = each[at]
                if at < 0 or turn.end <= sample.begin or not inside[node_of[sample.stack]]:
                    continue
                if is_held or sample.end <= turn.end:
                    found.setdefault(turn, []).append(Within(sample, turn, is_held))
        return found

    def within(self, thread: int, begin: int, end: int) -> Iterator[tuple[Sample, int]]:
        """Yield the samples of a thread that stand for some of that time, and for how much."""
        samples = self.of.get(thread, [])
        for at in range(bisect_right(self._ends.get(thread, ()), begin), len(samples)):
            each = samples[at]
            if each.begin >= end:
                break
            yield each, min(each.end, end) - max(each.begin, begin)

    def add_others(
        self, into: Counter[tuple[Place, int]], thread: int, begin: int, end: int, part: str
    ) -> None:
        """Add what other threads were at in that time that may have been waited for, in ns."""
        for other in self._in_process[self._profile.threads[thread].process]:
            if other == thread:
                continue
            for each, ns in self.within(other, begin, end):
                if each.part == RAN and (each.holds_gil or part != GIL):
                    counts = True
                else:
                    counts = each.part == ASLEEP and part not in (GIL, NOT_RUN)
                if counts and ns > 0 and (place := self._lines.place(each.stack)):
                    into[place, other] += ns

    def place(self, stack: int) -> Place:
        """Return the line of the program on a path."""
        return self._lines.place(stack) or NOWHERE

    def called(self, stack: int) -> str:
        """Return the library's function that the line called; "": none."""
        return self._lines.called(stack)


def _edges(profile: Profile) -> dict[int, list[int]]:
    """Return by thread when it began or ended a call that was kept: it ran then."""
    edges: defaultdict[int, set[int]] = defaultdict(set)
    for call in profile.calls:
        edges[call.thread].update((call.begin_ns, call.end_ns))
    for turn in profile.turns:
        edges[turn.thread].update((turn.begin_ns, turn.end_ns))
    return {thread: sorted(each) for thread, each in edges.items()}
