"""Samples added up: how often each thread was seen in which stack row.

An hour is tens of millions of samples: they are counted by C code, chunk by chunk, never in a
Python loop.
"""

from array import array
from collections import Counter

from pyhybrid.frames import PSEUDO_LIMIT
from pyhybrid.spool_rows import Chunk, Spool


class ThreadSamples:
    """What one thread's chunks add up to.

    `samples` counts by stack row; `first_ns` and `last_ns` are the times of the first and the last
    sample, None where there is none.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        """Count the chunks; ValueError where one refers to samples that it does not have."""
        self.samples: Counter[int] = Counter()
        self._weighted: Counter[tuple[int, int]] = Counter()
        for chunk in chunks:
            self.samples.update(chunk.stack)
            if len(chunk.weights):
                index, weight = chunk.weights[::2].tolist(), chunk.weights[1::2].tolist()
                if max(index) >= len(chunk.stack):
                    raise ValueError("a weight without its sample")
                stacks = map(chunk.stack.__getitem__, index)
                self._weighted.update(zip(stacks, weight, strict=True))
        self.first_ns = chunks[0].first_ns if chunks else None
        self.last_ns = chunks[-1].first_ns + sum(chunks[-1].dt_ns) if chunks else None

    def periods(self) -> dict[int, int]:
        """Each stack row's weight, in periods."""
        periods = dict(self.samples)
        for (stack, weight), n in self._weighted.items():
            periods[stack] += n * (weight - 1)
        return periods


def count_samples(spool: Spool) -> dict[int, ThreadSamples]:
    """Each thread's samples; threads without any are there too.

    Samples without any frame (stack 0) get a row of their own, [truncated].  Raises ValueError
    where a sample refers to a stack row that is not there.
    """
    chunks: dict[int, list[Chunk]] = {number: [] for number in sorted(spool.threads)}
    for chunk in spool.chunks:
        chunks.setdefault(chunk.thread, []).append(chunk)
    threads = {number: ThreadSamples(of_thread) for number, of_thread in chunks.items()}
    frameless = [number for number, taken in threads.items() if 0 in taken.samples]
    if frameless:
        row = len(spool.words)
        spool.parents.append(0)
        spool.words.append(PSEUDO_LIMIT | 1)
        for number in frameless:
            for chunk in chunks[number]:
                chunk.stack = memoryview(array("I", (stack or row for stack in chunk.stack)))
            threads[number] = ThreadSamples(chunks[number])
    for taken in threads.values():
        if taken.samples and max(taken.samples) >= len(spool.words):
            raise ValueError("a sample without its stack")
    return threads
