"""A GPU's work (GpuTrace), below the calls that launched it.

A launch has a thread and a time; the event log (--events) has which call ran there then.  What a
backward pass launched belongs to the call that made the node: the enclosing operator has the
sequence number of one of the forward pass, and one that accumulates gradients is of what ran just
before it on its thread; or of which the piece of backward work is logged, and what the engine
launches between two of them (it sums up what the first one gave) is that of the first.  What is not
to be placed is below no call (node 0), and counted by reason.

Traces' times are those of the day, the profile's those of the monotonic clock: pairs of both, one a
second, show how they lie to one another.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Event, GpuActivity, GpuWait, GpuWindow, GpuWork
from pyhybrid.tables.database import insert
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Row

# The records of a GPU's work, whoever makes them: times of day in nanoseconds.
#
# kineto.py reads them from a trace of torch.profiler's, live.py from what the program recorded.


class Launch(NamedTuple):
    """A launch is a call on a thread of the program's that gave work to a GPU."""

    tid: int
    begin_ns: int


class Work(NamedTuple):
    """Work is a kernel, copy or fill; `launch` is None where it is not known."""

    name: str
    device: int
    stream: int
    begin_ns: int
    end_ns: int
    launch: Launch | None


class Wait(NamedTuple):
    """A wait is a call on a thread of the program's that waited for a GPU."""

    name: str
    tid: int
    begin_ns: int
    end_ns: int


class Operator(NamedTuple):
    """Hold an operator on a CPU.  `sequence` is of the autograd node that it made, or ran; -1: of
    none.  `is_backward`: it ran one.  `accumulates`: it ran one that sums up a gradient, of no
    number."""

    tid: int
    begin_ns: int
    end_ns: int
    sequence: int
    is_backward: bool
    accumulates: bool


class Piece(NamedTuple):
    """A piece is work of an autograd node on a CPU, and the call path that made it (0: none is
    known).  Its times are the profile's."""

    tid: int
    begin_ns: int
    end_ns: int
    node: int


def graph_name(name: str) -> str:
    """Name what a CUDA graph replays."""
    return f"[graph] {name}"


class GpuTrace(Struct):
    """Hold the work of a run, or parts of it: `windows` are when it was recorded, in order, apart.

    `pids`: of the processes that launched; none: it is this one.  `notes`: what to report of it.
    """

    work: list[Work] = made(list)
    waits: list[Wait] = made(list)
    operators: list[Operator] = made(list)
    pieces: list[Piece] = made(list)  # instead of operators
    windows: list[tuple[int, int]] = made(list)
    pids: set[int] = made(set)
    notes: list[str] = made(list)


MAX_ACTIVITIES = 200_000  # single ones that are kept: the longest; all are in the sums

NO_LAUNCH = "launched before the trace begins"
NO_THREAD = "launched on threads that the profile does not know"
OUTSIDE = "launched while no call was logged"
UNMADE = "launched by backward work that no call made"  # of which it is known

_Moment = tuple[int, int]  # a thread's tid, and a time of the monotonic clock


class Placed(Struct):
    """Hold what the tables get; how many kernels and copies are below calls, and of the others how
    many by reason; how many are in sums alone."""

    work: list[GpuWork] = made(list)
    activities: list[GpuActivity] = made(list)
    waits: list[GpuWait] = made(list)
    windows: list[GpuWindow] = made(list)
    n_placed: int = 0
    unplaced: Counter[str] = made(Counter)
    n_in_sums: int = 0

    def write(self, database: sqlite3.Connection) -> None:
        """Write it into a profile's tables, in the place of what is there: a file that an older
        version wrote has others, or none.  Raises sqlite3.Error."""
        tables: dict[type[Row], list[Any]] = {
            GpuWork: self.work,
            GpuActivity: self.activities,
            GpuWait: self.waits,
            GpuWindow: self.windows,
        }
        for row, rows in tables.items():
            database.execute(f"DROP TABLE IF EXISTS {row.table.name}")
            database.execute(row.table.create)
            insert(database, row, rows)


def place(profile: Profile, trace: GpuTrace, events: Iterable[Event] = ()) -> Placed:
    """Place what the trace has below the profile's calls; `events`: none: those of the profile.

    Raises PyhybridError.
    """
    if not events and not profile.query("SELECT 1 FROM event_log LIMIT 1"):
        raise PyhybridError(f"{profile.path}: no events, by which launches are placed (--events)")
    pid = profile.process.pid
    if trace.pids and pid not in trace.pids:
        raise PyhybridError(f"{profile.path}: of process {pid}, of which the trace has nothing")
    to_monotonic, operators = _clock(profile), _Operators(trace.operators)
    pieces = _Pieces(trace.pieces)
    launched: list[tuple[_Moment | None, bool]] = []  # of each work when and where; backward?
    for work in trace.work:
        made = work.launch and operators.forward_of(*work.launch)
        at = made or work.launch
        launched.append((at and (at[0], to_monotonic(at[1])), bool(made)))
    waited = [(each.tid, to_monotonic(each.begin_ns)) for each in trace.waits]
    nodes = _calls_at(profile, {*(at for at, _ in launched if at), *waited}, events)

    placed, tids = Placed(), {thread.tid for thread in profile.threads.values()}
    number: dict[tuple[Any, ...], int] = {}  # of a row of sums
    sums: list[list[int]] = []
    singles: list[GpuActivity] = []
    for work, (at, is_backward) in zip(trace.work, launched, strict=True):
        node = nodes[at] if at else 0
        piece = at and (pieces.at(at) or (None if node else pieces.before(at)))
        if piece:
            node, is_backward = piece.node, True
        if node:
            placed.n_placed += 1
        else:
            placed.unplaced[UNMADE if piece else _why(at, tids)] += 1
        key = node, int(is_backward), work.name, work.device, work.stream
        row = number.setdefault(key, len(number))
        if row == len(sums):
            sums.append([0, 0])
        sums[row][0] += 1
        sums[row][1] += work.end_ns - work.begin_ns
        launch_ns = to_monotonic(work.launch.begin_ns) if work.launch else None
        begin_ns = to_monotonic(work.begin_ns)
        end_ns = begin_ns + work.end_ns - work.begin_ns
        singles.append(GpuActivity(row + 1, begin_ns, end_ns, launch_ns))
    placed.work = [GpuWork(row + 1, *key, *sums[row]) for key, row in number.items()]
    kept = nlargest(MAX_ACTIVITIES, singles, key=lambda each: each.end_ns - each.begin_ns)
    placed.activities = sorted(kept, key=lambda each: (each.begin_ns, each.work))
    placed.n_in_sums = len(singles) - len(kept)
    placed.waits = _waits(trace, [nodes[at] for at in waited])
    placed.windows = [GpuWindow(*map(to_monotonic, each)) for each in trace.windows]
    return placed


def _why(at: _Moment | None, tids: set[int]) -> str:
    if at is None:
        return NO_LAUNCH
    return OUTSIDE if at[0] in tids else NO_THREAD


def _waits(trace: GpuTrace, nodes: list[int]) -> list[GpuWait]:
    sums: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for node, each in zip(nodes, trace.waits, strict=True):
        sums[node, each.name][0] += 1
        sums[node, each.name][1] += each.end_ns - each.begin_ns
    return [GpuWait(*key, *of) for key, of in sorted(sums.items())]


def _clock(profile: Profile) -> Callable[[int], int]:
    """Return the map from the time of day to the profile's, both ns, by the pairs around it."""
    pairs = profile.clock_pairs
    if not pairs:
        raise PyhybridError(f"{profile.path}: it is not known at what time of day it began")
    days = [unix_ns for _, unix_ns in pairs]

    def to_monotonic(unix_ns: int) -> int:
        i = min(max(bisect_right(days, unix_ns), 1), len(pairs) - 1)
        (time0, unix0), (time1, unix1) = pairs[max(i - 1, 0)], pairs[i]
        since_ns = unix_ns - unix0
        if unix1 <= unix0:
            return time0 + since_ns
        return time0 + since_ns * (time1 - time0) // (unix1 - unix0)

    return to_monotonic


def _calls_at(
    profile: Profile, moments: Iterable[_Moment], events: Iterable[Event]
) -> dict[_Moment, int]:
    """Return the node of the innermost call at each, by the event log; 0: none, or not known."""
    wanted: defaultdict[int, list[int]] = defaultdict(list)  # the latest first
    for tid, time_ns in sorted(moments, reverse=True):
        wanted[tid].append(time_ns)
    found: dict[_Moment, int] = {(tid, at): 0 for tid, times in wanted.items() for at in times}
    thread, tid, todo, stack = 0, 0, list[int](), list[int]()
    for event in events or profile.events():
        if event.thread != thread:
            thread, stack = event.thread, []
            tid = profile.threads[thread].tid
            todo = wanted[tid].copy()
        while todo and todo[-1] < event.time_ns:
            at = todo.pop()
            if stack:
                found[tid, at] = stack[-1]
        if event.kind in ("call", "resume"):
            stack.append(event.node)
        elif event.kind == "gap":
            stack.clear()
        elif stack:
            stack.pop()
    return found


class _Pieces:
    """Find pieces of backward work, by thread."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._of_thread: defaultdict[int, list[Piece]] = defaultdict(list)
        for each in sorted(pieces, key=lambda each: (each.begin_ns, -each.end_ns)):
            self._of_thread[each.tid].append(each)
        self._begins = {t: [each.begin_ns for each in of] for t, of in self._of_thread.items()}
        self._outer = {tid: _enclosing(of) for tid, of in self._of_thread.items()}

    def at(self, moment: _Moment) -> Piece | None:
        """Return the innermost one that ran on the thread then."""
        tid, time_ns = moment
        i = bisect_right(self._begins.get(tid, []), time_ns) - 1
        while i >= 0:
            each = self._of_thread[tid][i]
            if each.end_ns >= time_ns:
                return each
            i = self._outer[tid][i]
        return None

    def before(self, moment: _Moment) -> Piece | None:
        """Return the latest one that had ended on the thread, of those in no other one."""
        tid, time_ns = moment
        i = bisect_right(self._begins.get(tid, []), time_ns) - 1
        while i >= 0 and self._outer[tid][i] >= 0:
            i = self._outer[tid][i]
        return self._of_thread[tid][i] if i >= 0 else None


class _Operators:
    """Find the operators of the CPU, and which one of the forward pass a backward one is of."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._of_thread: defaultdict[int, list[Operator]] = defaultdict(list)
        self._forward: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for each in operators:
            self._of_thread[each.tid].append(each)
            if each.sequence >= 0 and not each.is_backward:
                middle = (each.begin_ns + each.end_ns) // 2  # its caller may begin just before it
                self._forward[each.sequence].append((each.begin_ns, middle, each.tid))
        for of_thread in self._of_thread.values():
            of_thread.sort(key=lambda each: (each.begin_ns, -each.end_ns))
        self._begins = {t: [each.begin_ns for each in of] for t, of in self._of_thread.items()}
        self._outer = {tid: _enclosing(of) for tid, of in self._of_thread.items()}

    def forward_of(self, tid: int, time_ns: int) -> tuple[int, int] | None:
        """Return thread and time of the operator whose backward ran there then; None: none did."""
        i = bisect_right(self._begins.get(tid, []), time_ns) - 1
        while i >= 0:
            if self._of_thread[tid][i].end_ns >= time_ns and (made := self._made(tid, i)):
                return made
            i = self._outer[tid][i]
        return None

    def _made(self, tid: int, i: int) -> tuple[int, int] | None:
        """Return thread and time of the operator that made the node of the thread's `i`th one."""
        while i >= 0:
            each = self._of_thread[tid][i]
            if each.is_backward:
                before = (one for one in self._forward[each.sequence] if one[0] < each.begin_ns)
                made = max(before, default=None)  # the innermost one of this number, the latest
                return made and (made[2], made[1])
            if not each.accumulates:
                return None
            i = self._backward_before(tid, i)
        return None

    def _backward_before(self, tid: int, i: int) -> int:
        """Return the place of the one that did backward work last, in the same one; -1: none."""
        outer = self._outer[tid]
        around = outer[i]
        while i > 0:
            i -= 1
            while i != around and outer[i] != around:
                i = outer[i]
            if i == around:
                break
            each = self._of_thread[tid][i]
            if each.is_backward or each.accumulates:
                return i
        return -1


def _enclosing(spans: Sequence[Operator | Piece]) -> list[int]:
    """Return for each, in order of begin, the place of the next one out; -1: none is around it."""
    outer: list[int] = []
    stack: list[int] = []
    for i, each in enumerate(spans):
        while stack and spans[stack[-1]].end_ns <= each.begin_ns:
            stack.pop()
        outer.append(stack[-1] if stack else -1)
        stack.append(i)
    return outer
