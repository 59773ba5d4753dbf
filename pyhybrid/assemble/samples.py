"""Samples added up: how often each thread was seen in which stack row.

An hour is tens of millions of samples: they are counted by C code, chunk by chunk, never in a
Python loop.
"""

from array import array
from collections import Counter

from pyhybrid._columns import PSEUDO_LIMIT, STACK_MASK
from pyhybrid.spool.content import Chunk, Spool, Sum

MAX_WEIGHT = UNKNOWN_CPU = (1 << 32) - 1


class ThreadSamples:
    """Hold what one thread's chunks add up to.

    `samples` counts by place (content.Chunk): stack row, and what the thread was about.
    `first_ns` and `last_ns` are the times of the first and the last sample, None where there is
    none.
    """

    def __init__(self, chunks: list[Chunk]) -> None:
        """Count the chunks."""
        self.samples: Counter[int] = Counter()
        self._weighted: Counter[tuple[int, int]] = Counter()
        self._more: Counter[int] = Counter()
        for chunk in chunks:
            self.samples.update(chunk.place)
            for place, n in zip(chunk.place, chunk.samples, strict=False):
                self._more[place] += n - 1
            if len(chunk.weights):
                index, weight = chunk.weights[::2].tolist(), chunk.weights[1::2].tolist()
                places = map(chunk.place.__getitem__, index)
                self._weighted.update(zip(places, weight, strict=True))
        self.samples.update(self._more)
        self.first_ns = chunks[0].first_ns if chunks else None
        self.last_ns = chunks[-1].first_ns + sum(chunks[-1].dt_ns) if chunks else None

    def periods(self) -> dict[int, int]:
        """Return each place's weight, in periods."""
        periods = dict(self.samples)
        for place, n in self._more.items():
            periods[place] -= n
        for (place, weight), n in self._weighted.items():
            periods[place] += n * (weight - 1)
        return periods

    def stacks(self) -> set[int]:
        """Return the stack rows that were seen."""
        return {place & STACK_MASK for place in self.samples}


def _merged(spool: Spool) -> list[Chunk]:
    """Return those of which the spool has sums alone, a chunk for each thread."""
    of_thread: dict[int, list[Sum]] = {}
    for row in spool.sums:
        of_thread.setdefault(row.thread, []).append(row)
    chunks = []
    for thread, rows in of_thread.items():
        weights = array("I")
        for index, row in enumerate(rows):
            weights.extend((index, min(row.weight, MAX_WEIGHT)))
        chunk = Chunk(
            thread,
            min(row.first_ns for row in rows),
            memoryview(array("I", bytes(4 * len(rows)))),
            memoryview(array("I", (row.place for row in rows))),
            memoryview(weights),
            memoryview(array("I", (0, UNKNOWN_CPU))),
            array("Q", (row.samples for row in rows)),
        )
        chunks.append(chunk)
    return chunks


def _has_stacks(spool: Spool, chunk: Chunk) -> bool:
    return all(place & STACK_MASK < len(spool.words) for place in chunk.place)


def count_samples(spool: Spool) -> dict[int, ThreadSamples]:
    """Count each thread's samples; threads without any are there too.

    Samples without any frame (stack 0) get a row of their own, [truncated].  Chunks with a stack
    row that is not there are left out and counted as damaged.  Of samples that are sums alone there
    is a chunk that has each place once, at the time of the first of them.
    """
    chunks: dict[int, list[Chunk]] = {number: [] for number in sorted(spool.threads)}
    spool.chunks[:0] = _merged(spool)
    for chunk in spool.chunks:
        chunks.setdefault(chunk.thread, []).append(chunk)
    threads = {number: ThreadSamples(of_thread) for number, of_thread in chunks.items()}
    for number, taken in threads.items():
        if max(taken.stacks(), default=0) >= len(spool.words):
            whole = [chunk for chunk in chunks[number] if _has_stacks(spool, chunk)]
            spool.n_damaged += len(chunks[number]) - len(whole)
            chunks[number], threads[number] = whole, ThreadSamples(whole)
            spool.chunks = [chunk for of_thread in chunks.values() for chunk in of_thread]
    frameless = [number for number, taken in threads.items() if 0 in taken.stacks()]
    if frameless:
        row = len(spool.words)
        spool.parents.append(0)
        spool.words.append(PSEUDO_LIMIT | 1)
        for number in frameless:
            for chunk in chunks[number]:
                places = (at if at & STACK_MASK else at | row for at in chunk.place)
                chunk.place = memoryview(array("I", places))
            threads[number] = ThreadSamples(chunks[number])
    return threads
