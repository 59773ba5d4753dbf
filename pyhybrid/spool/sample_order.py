"""Samples of several threads that are one row, in order of time.

Chunks come thread by thread as they were drained, so they are in order but for those of one drain.
"""

from array import array
from itertools import accumulate, pairwise

from pyhybrid.spool.records import Chunk

_MOST = 1024  # samples in one chunk, as the profiled process writes them
_LONGEST_NS = (1 << 32) - 1  # between two samples of one


def in_order(chunks: list[Chunk]) -> list[Chunk]:
    """The same samples; of one thread."""
    chunks.sort(key=lambda chunk: chunk.first_ns)
    ends = [chunk.first_ns + sum(chunk.dt_ns) for chunk in chunks]
    if all(end <= after.first_ns for end, (_, after) in zip(ends, pairwise(chunks), strict=False)):
        return chunks
    samples = [sample for chunk in chunks for sample in _samples(chunk)]
    samples.sort()
    ordered: list[Chunk] = []
    part: list[tuple[int, int, int, int]] = []
    for sample in samples:
        if part and (len(part) == _MOST or sample[0] - part[-1][0] > _LONGEST_NS):
            ordered.append(_chunk(chunks[0].thread, part))
            part = []
        part.append(sample)
    return [*ordered, _chunk(chunks[0].thread, part)]


def _samples(chunk: Chunk) -> list[tuple[int, int, int, int]]:
    """Time, place, weight and CPU of each."""
    n = len(chunk.place)
    weights, cpus = [1] * n, [0] * n
    for index, weight in zip(chunk.weights[::2], chunk.weights[1::2], strict=True):
        weights[index] = weight
    ends = [*chunk.cpus[2::2], n]
    for index, cpu, end in zip(chunk.cpus[::2], chunk.cpus[1::2], ends, strict=True):
        cpus[index:end] = [cpu] * (end - index)
    times = accumulate(chunk.dt_ns, initial=chunk.first_ns)
    next(times)  # the first step is 0
    return list(zip(times, chunk.place, weights, cpus, strict=True))


def _chunk(thread: int, samples: list[tuple[int, int, int, int]]) -> Chunk:
    times = [time for time, *_ in samples]
    weights, cpus = array("I"), array("I")
    last_cpu = -1
    for index, (_, _, weight, cpu) in enumerate(samples):
        if weight != 1:
            weights.extend((index, weight))
        if cpu != last_cpu:
            cpus.extend((index, cpu))
        last_cpu = cpu
    steps = array("I", (0, *(after - before for before, after in pairwise(times))))
    places = array("I", (place for _, place, *_ in samples))
    return Chunk(
        thread,
        times[0],
        memoryview(steps),
        memoryview(places),
        memoryview(weights),
        memoryview(cpus),
    )
