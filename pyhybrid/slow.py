"""Slow calls select samples: a profile with only those that fell inside them.

A call's time says when, the samples within it say why.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from pyhybrid.durations import function_durations
from pyhybrid.errors import PyhybridError
from pyhybrid.names import short_time
from pyhybrid.profile_file import Profile
from pyhybrid.rows import Call, Chunk, Sampled, Thread

Spans = list[tuple[int, int]]


@dataclass(slots=True)
class SlowerThan:
    """Calls of the function or region `name` (as -t takes it) that took `least_ns` or longer."""

    name: str
    least_ns: int


class Selection(Profile):
    """A profile's samples within chosen times; the rest is the profile's, but for exact figures,
    which are not kept by time."""

    def __init__(self, profile: Profile, chunks: list[Chunk]) -> None:
        super().__init__(profile.path, profile._database)
        self._chunks = chunks
        samples: Counter[tuple[int, int]] = Counter()
        periods: Counter[tuple[int, int]] = Counter()
        for chunk in chunks:
            for at, stack in enumerate(chunk.stack):
                samples[chunk.thread, stack] += 1
                periods[chunk.thread, stack] += chunk.weights.get(at, 1)
        period_ns = profile.period_ns
        self.sampled = [
            Sampled(*key, samples[key], periods[key] * period_ns) for key in sorted(samples)
        ]
        self.exact = []
        self.threads = {key: self._restricted(thread) for key, thread in profile.threads.items()}

    def _restricted(self, thread: Thread) -> Thread:
        rows = [row for row in self.sampled if row.thread == thread.id]
        lost = thread.signals - thread.recorded
        recorded = sum(row.samples for row in rows)
        weight_ns = sum(row.weight_ns for row in rows)
        return replace(
            thread,
            signals=recorded + lost,
            recorded=recorded,
            recorded_weight_ns=weight_ns,
            missed_weight_ns=0,
            cpu_ns=weight_ns,
        )

    def timeline(self) -> Iterator[Chunk]:
        """Those samples, in chunks by thread and time."""
        return iter(self._chunks)


def select(
    profile: Profile, limits: list[SlowerThan], any_thread: bool = False
) -> tuple[Profile, list[str]]:
    """The samples within these calls, and a note for each limit; without limits the profile itself.

    A call's samples are those of its thread while it ran there, or with `any_thread` of all
    threads.  Raises PyhybridError where no calls of that name were kept.
    """
    if not limits:
        return profile, []
    turns: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for turn in profile.turns:
        turns[turn.call].append((turn.thread, turn.begin_ns, turn.end_ns))
    spans: defaultdict[int, Spans] = defaultdict(list)
    notes = []
    for limit in limits:
        calls, note = _calls(profile, limit)
        notes.append(note)
        for call in calls:
            for thread, begin, end in turns[call.id] or [(call.thread, call.begin_ns, call.end_ns)]:
                for each in profile.threads if any_thread else (thread,):
                    spans[each].append((begin, end))
    united = {thread: _united(of_thread) for thread, of_thread in spans.items()}
    chunks = [
        part
        for chunk in profile.timeline()
        for part in _within(chunk, united.get(chunk.thread, []))
    ]
    return Selection(profile, chunks), notes


def _calls(profile: Profile, limit: SlowerThan) -> tuple[list[Call], str]:
    nodes, frames = profile.nodes.frame, profile.frames
    named = {
        number
        for number, frame in frames.items()
        if frame.kind in ("python", "region")
        and (frame.name == limit.name or limit.name.endswith(f".{frame.name}"))
    }
    of_name = [call for call in profile.calls if nodes[call.node] in named]
    if not of_name:
        raise PyhybridError(
            f"{profile.path}: no single calls of {limit.name!r}: choose it with `-t {limit.name}`, "
            "or make it a region"
        )
    slow = [call for call in of_name if call.end_ns - call.begin_ns >= limit.least_ns]
    durations = function_durations(profile)
    n = sum(durations[frame].calls for frame in named if frame in durations)
    text = f"only samples within {len(slow):,} of {n:,} calls of {limit.name}"
    return slow, f"{text} that took {short_time(limit.least_ns)} or longer"


def _united(spans: Spans) -> Spans:
    united: Spans = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united


def _within(chunk: Chunk, spans: Spans) -> Iterator[Chunk]:
    """The parts of a chunk whose samples lie in `spans`."""
    times = list(accumulate(chunk.dt_ns, initial=chunk.first_ns))[1:]
    if not times:
        return
    first = max(0, bisect_left(spans, (times[0],)) - 1)
    for begin, end in spans[first : bisect_right(spans, (times[-1] + 1,))]:
        low, high = bisect_left(times, begin), bisect_right(times, end)
        if low < high:
            weights = {at - low: n for at, n in chunk.weights.items() if low <= at < high}
            steps = array("I", [0, *chunk.dt_ns[low + 1 : high]])
            yield Chunk(chunk.thread, times[low], steps, chunk.stack[low:high], weights)
