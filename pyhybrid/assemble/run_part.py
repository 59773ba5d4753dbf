"""A part of a run: a spool less what it had before (capture/run_part.py).

Records are added to a spool, and keep their numbers: what is counted for a node, a thread or a path
at two moments has a difference.  Functions that ran when the part began are calls that had begun
before, timed from then on, as where a `Profiler` starts on its own.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from pyhybrid.spool import EXACT_COUNT
from pyhybrid.spool import reader as spools
from pyhybrid.spool.content import Chunk, Counters, End, Spool, Sum
from pyhybrid.tables.timeline import Spans

Marks = Sequence[tuple[int, str]]  # begins and ends in turn: when, and the spool as it was


def restrict(spool: Spool, marks: Marks) -> None:
    """Leave in the spool, which is that of the last mark, what is between begins and ends.

    Raises PyhybridError where one of the marks' spools cannot be read.
    """
    spans: Spans = [
        (begin, end) for (begin, _), (end, _) in zip(marks[::2], marks[1::2], strict=True)
    ]
    before = [spools.read(path) for _, path in marks[:-1]]
    _restrict_samples(spool, before[0], spans)
    spool.counters = {
        thread: _counted(thread, counters, before) for thread, counters in spool.counters.items()
    }
    ends = [*before[1::2], spool]
    threads = spool.exact_threads
    for each in before:  # a row that is another thread's by now
        for index in [at for at, number in each.exact_threads.items() if threads[at] != number]:
            del each.exact_counts[index]
    spool.exact_counts = {
        index: _difference(index, rows, before[::2], ends)
        for index, rows in spool.exact_counts.items()
    }
    first = before[0]
    for index, turns in spool.calls.items():
        del turns[: len(first.calls.get(index, ()))]
    for index, calls in spool.watched.items():
        del calls[: len(first.watched.get(index, ()))]
    del spool.events[: len(first.events)]
    del spool.device_work[: len(first.device_work)]
    del spool.backward_turns[: len(first.backward_turns)]
    known = {(each.thread, each.node, each.name): each for each in first.backward_sums}
    spool.backward_sums = [
        each._replace(calls=each.calls - old.calls, ticks=each.ticks - old.ticks)
        for each in spool.backward_sums
        for old in [known.get((each.thread, each.node, each.name), each._replace(calls=0, ticks=0))]
    ]
    for at, times in list(spool.call_times.items()):
        if earlier := first.call_times.get(at):
            buckets = tuple(n - m for n, m in zip(times.buckets, earlier.buckets, strict=True))
            n, total = times.n - earlier.n, times.sum - earlier.sum
            spool.call_times[at] = times._replace(n=n, sum=total, buckets=buckets)
    begin_ns, end_ns = spans[0][0], spans[-1][1]
    meta = spool.meta
    meta["start_unix_ns"] += begin_ns - meta["start_ns"]
    meta |= {"start_ns": begin_ns, "stop_ns": end_ns, "paused": False}
    meta["notes"] = [*meta.get("notes", ()), "a part of a run of `python -m pyhybrid`"]
    cpu_ns = sum(counters.cpu_ns for counters in spool.counters.values())
    spool.end = End(end_ns, cpu_ns, 0, 0, 0, 0, 0)


def _restrict_samples(spool: Spool, before: Spool, spans: Spans) -> None:
    chunks = [_inside(chunk, spans) for chunk in spool.chunks]
    spool.chunks = [chunk for chunk in chunks if len(chunk.place)]
    # Sums have no times: of those that began before, what is new may be of any moment since.
    old = {(row.thread, row.place): row for row in before.sums}
    sums = []
    for row in spool.sums:
        if row.last_ns < spans[0][0]:
            continue
        known = old.get((row.thread, row.place))
        n, weight = (known.samples, known.weight) if known else (0, 0)
        if row.samples > n:
            first_ns = max(row.first_ns, spans[0][0])
            sums.append(Sum(*row[:2], row.samples - n, row.weight - weight, first_ns, row.last_ns))
    spool.sums = sums


def _inside(chunk: Chunk, spans: Spans) -> Chunk:
    """Return the samples of the chunk that are in one of the spans."""
    times = list(accumulate(chunk.dt_ns, initial=chunk.first_ns))[1:]
    if any(begin <= times[0] and times[-1] <= end for begin, end in spans):
        return chunk
    kept = [
        at for at, time in enumerate(times) if any(begin <= time <= end for begin, end in spans)
    ]
    weights = dict(zip(chunk.weights[::2], chunk.weights[1::2], strict=True))
    cpu_from = sorted(zip(chunk.cpus[::2], chunk.cpus[1::2], strict=True))
    new_weights, new_cpus, now = array("I"), array("I"), None
    for number, at in enumerate(kept):
        if at in weights:
            new_weights.extend((number, weights[at]))
        cpu = next((cpu for index, cpu in reversed(cpu_from) if index <= at), None)
        if cpu is not None and cpu != now:
            new_cpus.extend((number, cpu))
            now = cpu
    moments = [times[at] for at in kept]
    steps = [later - earlier for earlier, later in pairwise(moments)]
    return Chunk(
        chunk.thread,
        moments[0] if moments else chunk.first_ns,
        memoryview(array("I", [0, *steps] if moments else [])),
        memoryview(array("I", [chunk.place[at] for at in kept])),
        memoryview(new_weights),
        memoryview(new_cpus),
        array("Q", [chunk.samples[at] for at in kept] if len(chunk.samples) else []),
    )


def _counted(thread: int, last: Counters, before: list[Spool]) -> Counters:
    total = _Sum(last)
    for number, spool in enumerate(before):
        if thread in spool.counters:
            total.add(spool.counters[thread], -1 if number % 2 == 0 else 1)
    return total.counters()


class _Sum:
    """Sum threads' accounts, with signs."""

    def __init__(self, counters: Counters) -> None:
        self._plain = [*counters[:5]]
        self._lists = [list(each) for each in counters[5:]]

    def add(self, counters: Counters, sign: int) -> None:
        for at, value in enumerate(counters[:5]):
            self._plain[at] += sign * value
        for into, values in zip(self._lists, counters[5:], strict=True):
            into[:] = [n + sign * value for n, value in zip(into, values, strict=True)]

    def counters(self) -> Counters:
        signals, recorded, weight, missed, cpu_ns = (max(each, 0) for each in self._plain)
        lists = [tuple(max(n, 0) for n in each) for each in self._lists]
        return Counters(signals, recorded, weight, missed, cpu_ns, *lists)


_WORDS = EXACT_COUNT.size // 8  # raised and seeded, calls, resumes, total_ticks, since_ticks
_HALF = 32


def _difference(
    index: int, rows: bytearray, begins: Iterable[Spool], ends: Iterable[Spool]
) -> bytearray:
    """Return a thread's rows, less what they were at each begin, with those at each end."""
    total = array("q", bytes(len(rows)))
    for spools_, sign in ((ends, 1), (begins, -1)):
        for spool in spools_:
            _add(total, array("Q", bytes(spool.exact_counts.get(index, b""))), spool, sign)
    # Of a thread that has joined those of its name since, that row has all it did.
    return bytearray(array("q", (max(each, 0) for each in total)).tobytes())


def _add(total: "array[int]", rows: "array[int]", spool: Spool, sign: int) -> None:
    last_ticks = spool.clocks[-1][0] if spool.clocks else 0
    for at in range(0, len(rows), _WORDS):
        raised_and_seeded, calls, resumes, ticks, since = rows[at : at + _WORDS]
        if since:
            ticks += max(last_ticks - since, 0)
        if since and sign < 0:  # it had begun before
            calls -= 1
            raised_and_seeded -= 1 << _HALF
        total[at] += sign * raised_and_seeded
        total[at + 1] += sign * calls
        total[at + 2] += sign * resumes
        total[at + 3] += sign * ticks
