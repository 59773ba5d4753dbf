"""Who waited, and what other threads ran at that moment: pairs of lines.

With `--clock wall` both are sampled: beside each sample of a thread that waited (for the GIL, or
off the processor) stands the one of another thread of its process, nearest in time, that held the
GIL, or else ran, or else was about work of its own.  Samples of CPU time have none of a wait; there
a thread's functions waited by exact times (waits.py), and what others ran is taken from the times
between its samples, for all its functions alike.  Of a training both are of its steps.  What waits
because there is nothing to do is left out (call_tree/waiting.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pyhybrid._columns import nearest, take
from pyhybrid.tables import gil_name, stack_of, waits
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.tables.timeline import Spans, times, within
from pyhybrid.views.call_tree.waiting import CALLBACK, IDLE, WORK, states_of
from pyhybrid.views.labels import labels_of, shorten_file
from pyhybrid.views.lines.program_lines import innermost_lines, program_frames
from pyhybrid.views.training.in_steps import spans_of_steps
from pyhybrid.views.training.phase_functions import phase_functions
from pyhybrid.views.training.steps import steps_of
from pyhybrid.views.waits import wait_label, waits_of

GIL = "the GIL"
NEAR_PERIODS = 1.5  # between samples of one instant
GAP_PERIODS = 3  # of CPU time between two samples: a thread that runs has one each period
MOST_SAMPLES = 50_000  # that waited, and are looked at: of more each n-th
MOST_FUNCTIONS = 3  # of a thread, by exact times


# What a thread is about where it waits: a queue may be empty, of which others (a pool's) know.
OF_OWN, OF_OTHERS = (WORK, CALLBACK, IDLE), (WORK, CALLBACK)


class Place(NamedTuple):
    """Hold a function of the program, and its line, `file:line`; "": not known."""

    function: str
    at: str


class WaitPair(Record):
    """Hold for how long a function waited while another thread ran one.

    `waits_for`: the GIL, or the library's function that the waiting one called; "": not known.
    """

    function: str
    at: str
    waits_for: str
    other: str
    other_at: str
    waited_ns: int


class WaitPairs(Record):
    """Hold the pairs, the longest first; `n_steps`: of so many steps, 0: of the run.  `by_samples`:
    both lines are sampled, with --clock wall."""

    n_steps: int
    by_samples: bool
    waited_ns: int
    pairs: list[WaitPair]


class _Key(NamedTuple):
    place: Place
    waits_for: str
    other: Place


@made_once
def wait_pairs(profile: Profile) -> WaitPairs:
    """Return them; none where nothing waited, or nothing is known of it."""
    spans, n_steps = spans_of_steps(profile)
    by_samples = profile.meta.get("clock") == "wall" and profile.meta.get("mode") != "trace"
    found = (_sampled if by_samples else _exact)(_Timeline(profile, spans))
    pairs = [
        WaitPair(*key.place, key.waits_for, *key.other, ns) for key, ns in found.most_common() if ns
    ]
    return WaitPairs(n_steps, by_samples, sum(pair.waited_ns for pair in pairs), pairs)


@made_once
def ran_meanwhile(profile: Profile) -> Counter[Place]:
    """Return what other threads ran while the one of the steps did not, in periods; empty where it
    is not known (--clock wall), or there are no steps."""
    spans, _ = spans_of_steps(profile)
    if spans is None or profile.meta.get("clock") != "cpu":
        return Counter()
    timeline = _Timeline(profile, spans)
    return Counter(p for each in timeline.own_threads() for p in _meanwhile(timeline, each))


class Lines:
    """Name what a path is about: a line of the program, and the library's function it called."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lines, self._labels = innermost_lines(profile), labels_of(profile, full_names=False)
        nodes, program = profile.nodes, program_frames(profile)
        last = max(profile.frames, default=0) + 1
        frames = profile.frames
        python = bytes(n in frames and frames[n].kind == "python" for n in range(last))
        self._python = nearest(nodes.parent, take(python, nodes.frame))
        own_frames = bytes(n in program for n in range(last))
        self._is_program = take(own_frames, nodes.frame)

    def place(self, stack: int) -> Place | None:
        """Return the line of the program on a path; None: there is none."""
        if not (found := self._lines[stack]):
            return None
        frame, line = found
        folder = str(self._profile.meta.get("cwd") or "")
        return Place(frame.name, f"{shorten_file(frame.file or '', folder)}:{line}")

    def called(self, stack: int) -> str:
        """Return the library's function that the line called; "": none."""
        nodes = self._profile.nodes
        at, found = self._python[self._profile.stacks.node[stack]], 0
        while at and not self._is_program[at]:
            found, at = at, self._python[nodes.parent[at]]
        return self._labels[nodes.frame[found]] if found and at else ""


class _Timeline:
    """Hold the samples by thread, and those that ran by process, in order of time."""

    def __init__(self, profile: Profile, spans: Spans | None) -> None:
        self.profile, self.spans = profile, spans
        self.samples: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.held: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.ran: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.at_work: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        own, states, node_of = profile.own_stacks, states_of(profile), profile.stacks.node
        for chunk in profile.timeline():
            at_ns, process = times(chunk), profile.threads[chunk.thread].process
            kept = range(len(at_ns)) if spans is None else within(at_ns, spans)
            for at in kept:
                place = chunk.place[at]
                if stack_of(place) in own:
                    continue
                sample = at_ns[at], chunk.thread, place
                self.samples[chunk.thread].append((at_ns[at], place, chunk.weights.get(at, 1)))
                if gil_name(place) == "held":
                    self.held[process].append(sample)
                elif gil_name(place) == "waiting":
                    continue
                elif not waits(place):
                    self.ran[process].append(sample)
                elif states[node_of[stack_of(place)]] in OF_OTHERS:
                    self.at_work[process].append(sample)
        for each in (*self.held.values(), *self.ran.values(), *self.at_work.values()):
            each.sort()
        self.lines = profile.once(Lines)

    def own_threads(self) -> set[int]:
        """Return those that run the steps of a training, or else each process's main one."""
        if self.spans is not None:
            found = steps_of(self.profile)
            return {step.thread for step in found.steps} if found else set()
        profile = self.profile
        pids = {each.id: each.pid for each in profile.processes.values()}
        return {t.id for t in profile.threads.values() if t.tid == pids[t.process]}

    def beside(self, at_ns: int, thread: int, near_ns: float) -> Place | None:
        """Return what another thread of its process ran at that time, with the GIL if any had it,
        or what it was in, without a processor; None: nothing that is the program's."""
        process = self.profile.threads[thread].process
        for ran in (self.held[process], self.ran[process], self.at_work[process]):
            after = bisect_left(ran, (at_ns,))
            near = [
                each
                for each in ran[max(0, after - 3) : after + 3]
                if each[1] != thread and abs(each[0] - at_ns) <= near_ns
            ]
            near.sort(key=lambda each: abs(each[0] - at_ns))
            if place := next(
                filter(None, (self.lines.place(stack_of(each[2])) for each in near)), None
            ):
                return place
        return None


NOTHING = Place("", "")  # no other thread ran


def _sampled(timeline: _Timeline) -> Counter[_Key]:
    profile, found = timeline.profile, Counter[_Key]()
    states, node_of = states_of(profile), profile.stacks.node
    near_ns, own_threads = NEAR_PERIODS * profile.period_ns, timeline.own_threads()
    waiting = [
        (at_ns, thread, place, periods)
        for thread, samples in timeline.samples.items()
        for at_ns, place, periods in samples
        if (waits(place) or gil_name(place) == "waiting")
        and states[node_of[stack_of(place)]] in (OF_OWN if thread in own_threads else OF_OTHERS)
    ]
    every = len(waiting) // MOST_SAMPLES + 1
    for at_ns, thread, place, periods in waiting[::every]:
        stack = stack_of(place)
        if where := timeline.lines.place(stack):
            waits_for = timeline.lines.called(stack) if states[node_of[stack]] == IDLE else ""
            waits_for = GIL if gil_name(place) == "waiting" else waits_for
            other = timeline.beside(at_ns, thread, near_ns) or NOTHING
            found[_Key(where, waits_for, other)] += periods * profile.period_ns * every
    return found


def _exact(timeline: _Timeline) -> Counter[_Key]:
    found = Counter[_Key]()
    for thread, functions in _by_functions(timeline).items():
        meanwhile = Counter(_meanwhile(timeline, thread))
        n = meanwhile.total()
        for function, waits_for, waited_ns in functions:
            place = Place(function, "")
            if not n:
                found[_Key(place, waits_for, NOTHING)] += waited_ns
            for other, periods in meanwhile.items():
                found[_Key(place, waits_for, other)] += waited_ns * periods // n
    return found


def _by_functions(timeline: _Timeline) -> dict[int, list[tuple[str, str, int]]]:
    """Return by thread which functions waited, for which library's function, and for how long."""
    profile = timeline.profile
    if timeline.spans is None:
        return {
            each.thread: [
                (wait_label(profile, frame), "", ns)
                for frame, ns in each.functions.most_common(MOST_FUNCTIONS)
            ]
            for each in waits_of(profile)
        }
    labels, (thread, *_) = labels_of(profile, full_names=False), sorted(timeline.own_threads())
    rows = [row for row in phase_functions(profile) if row.waits_in and row.cpu_ns is not None]
    functions = [
        (labels[row.frame], labels[row.waits_in], row.total_ns - (row.cpu_ns or 0)) for row in rows
    ]
    return {thread: functions}


def _meanwhile(timeline: _Timeline, thread: int) -> Iterator[Place]:
    """Yield what others ran in the times in which a thread did not, a period each."""
    profile, period_ns = timeline.profile, timeline.profile.period_ns
    process = profile.threads[thread].process
    at_ns = array("Q", (each[0] for each in timeline.samples[thread]))
    for ran in (timeline.held[process], timeline.ran[process]):
        for time_ns, other, place in ran:
            after = bisect_left(at_ns, time_ns)
            if other == thread or not 0 < after < len(at_ns):
                continue
            begin_ns, end_ns = at_ns[after - 1], at_ns[after] - period_ns
            if end_ns - begin_ns > GAP_PERIODS * period_ns and begin_ns < time_ns <= end_ns:
                yield timeline.lines.place(stack_of(place)) or NOTHING
