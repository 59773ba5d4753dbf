"""Parts of chunks: the samples of a thread that lie within some time, or at some indices."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from pyhybrid.profile_file.tables import Chunk

Spans = list[tuple[int, int]]  # begins and ends, in nanoseconds

_MAX_STEP_NS = (1 << 32) - 1


def times(chunk: Chunk) -> list[int]:
    """When each of its samples was taken."""
    return list(accumulate(chunk.dt_ns, initial=chunk.first_ns))[1:]


def within(at_ns: list[int], spans: Spans) -> list[int]:
    """The indices of the times that lie in one of `spans`, which are in order and apart."""
    kept: list[int] = []
    if not at_ns:
        return kept
    first = max(0, bisect_left(spans, (at_ns[0],)) - 1)
    for begin, end in spans[first : bisect_right(spans, (at_ns[-1] + 1,))]:
        kept.extend(range(bisect_left(at_ns, begin), bisect_right(at_ns, end)))
    return kept


def parts(chunk: Chunk, at_ns: list[int], kept: Sequence[int]) -> Iterator[Chunk]:
    """The samples of these indices, in several chunks where a step of time is too long for one."""
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
