"""What a profile has in order of time: samples in chunks, and parts of chunks; its event log."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from pyhybrid.tables import Chunk, Event, gil_name

Spans = list[tuple[int, int]]  # begins and ends, in nanoseconds

APART = 3  # periods
# src/exact/event_log.h
KINDS = ("call", "resume", "return", "yield", "raise", "time", "gap")
TIME, GAP = 5, 6
STEP_MASK, KIND_SHIFT, VALUE_SHIFT, STEP_BITS = 0xFFFFFFFF, 32, 35, 32
_MAX_STEP_NS = (1 << 32) - 1


def times(chunk: Chunk) -> list[int]:
    """Return when each of its samples was taken."""
    return list(accumulate(chunk.dt_ns, initial=chunk.first_ns))[1:]


def periods_of(chunk: Chunk) -> list[int]:
    """Return the weight of each of its samples, in periods."""
    weights = [1] * len(chunk.place)
    for index, periods in chunk.weights.items():
        weights[index] = periods
    return weights


def gil_runs(chunk: Chunk, period_ns: int) -> Iterator[tuple[str, int, int]]:
    """Yield stretches of one part in the GIL (one of GIL): (which, from, until), in nanoseconds.

    One ends where the next sample has another part, or comes so late that what was between them is
    not known; a sample stands for the period before it.
    """
    which, begin, last = "", 0, 0
    for place, at in zip(chunk.place, times(chunk), strict=True):
        state = gil_name(place)
        if last and (state != which or at - last > APART * period_ns):
            yield which, begin, last
            last = 0
        if not last:
            begin, which = at - period_ns, state
        last = at
    if last:
        yield which, begin, last


def within(at_ns: list[int], spans: Spans) -> list[int]:
    """Return the indices of the times that lie in one of `spans`, which are in order and apart."""
    kept: list[int] = []
    if not at_ns:
        return kept
    first = max(0, bisect_left(spans, (at_ns[0],)) - 1)
    for begin, end in spans[first : bisect_right(spans, (at_ns[-1] + 1,))]:
        kept.extend(range(bisect_left(at_ns, begin), bisect_right(at_ns, end)))
    return kept


def parts(chunk: Chunk, at_ns: list[int], kept: Sequence[int]) -> Iterator[Chunk]:
    """Yield the samples of these indices, in several chunks where a step is too long for one."""
    if len(kept) == len(at_ns):
        yield chunk
        return
    breaks = [i for i in range(1, len(kept)) if at_ns[kept[i]] - at_ns[kept[i - 1]] > _MAX_STEP_NS]
    cpus = sorted(chunk.cpus.items())
    for low, high in zip([0, *breaks], [*breaks, len(kept)], strict=True):
        if low == high:
            continue
        part = kept[low:high]
        steps = [at_ns[at] - at_ns[before] for before, at in pairwise(part)]
        weights = {i: chunk.weights[at] for i, at in enumerate(part) if at in chunk.weights}
        on = [cpus[bisect_right(cpus, (at, 1 << 32)) - 1][1] if cpus else 0 for at in part]
        changes = {i: cpu for i, cpu in enumerate(on) if not i or on[i - 1] != cpu}
        places = array("I", (chunk.place[at] for at in part))
        yield Chunk(chunk.thread, at_ns[part[0]], array("I", [0, *steps]), places, weights, changes)


def events_of(
    words: Iterable[int], thread: int, first_ns: int, tick_ns: float, nodes: Sequence[int]
) -> Iterator[Event]:
    """Yield the events of a part of a thread's event log; its node i is `nodes[i]`."""
    ticks = 0
    for word in words:
        ticks += word & STEP_MASK
        kind, value = word >> KIND_SHIFT & 7, word >> VALUE_SHIFT
        if kind == TIME:
            ticks += value << STEP_BITS
            continue
        node = value if kind == GAP else nodes[value]
        yield Event(thread, first_ns + round(ticks * tick_ns), KINDS[kind], node)
