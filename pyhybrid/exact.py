"""The exact half of a spool: each thread's tree of calls, joined with the sampled tree's nodes.

Events and samples number their threads and nodes apart (src/spool.h).  A thread of one half is
that of the other if tid and time agree; a node is one by its path of frames.  What only the events
saw is added: threads without a sample, paths without a stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from pyhybrid.frames import LINE_LIMIT, Frames
from pyhybrid.rows import Exact, Line
from pyhybrid.spool import ExactCount, ExactThread, Spool, Thread
from pyhybrid.tree import Tree


@dataclass(slots=True)
class _Record:
    calls: int = 0
    resumes: int = 0
    raised: int = 0
    seeded: int = 0
    ticks: int = 0

    def add(self, count: ExactCount) -> None:
        self.calls += count.calls
        self.resumes += count.resumes
        self.raised += count.raised
        self.seeded += count.seeded
        self.ticks += count.total_ticks


def match_threads(spool: Spool) -> dict[int, int]:
    """The number, in `spool.threads`, of each thread of the exact half; missing ones are added.

    A tid that came again is told by time: the sampler sees a thread up to 20 ms later than its
    first event, or long before.
    """
    by_tid: dict[int, list[tuple[int, int]]] = {}
    for number, thread in spool.threads.items():
        by_tid.setdefault(thread.tid, []).append((thread.first_seen_ns, number))
    matched: dict[int, int] = {}
    for index, exact in spool.exact_threads.items():
        seen = sorted(by_tid.get(exact.tid, ()))
        before = [number for first_ns, number in seen if first_ns <= exact.first_ns + 20_000_000]
        taken = set(matched.values())
        candidates = [number for number in reversed(before) if number not in taken]
        matched[index] = candidates[0] if candidates else _add_thread(spool, exact)
    return matched


def _add_thread(spool: Spool, exact: ExactThread) -> int:
    number = max(spool.threads, default=0) + 1
    spool.threads[number] = Thread(
        exact.tid, exact.first_ns, exact.first_ns, exact.comm, exact.comm
    )
    return number


class Ticks:
    """The exact half's clock: what its ticks are in nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self, spool: Spool) -> None:
        """By the first and the last pair of readings."""
        (self._ticks0, self._ns0), (ticks1, ns1) = [*spool.clocks, (0, 0), (0, 0)][:2]
        if len(spool.clocks) > 1:
            ticks1, ns1 = spool.clocks[-1]
        good = ticks1 > self._ticks0
        self.multiply, self.divide = (ns1 - self._ns0, ticks1 - self._ticks0) if good else (1, 1)

    def span(self, ticks: int) -> int:
        """A duration."""
        return ticks * self.multiply // self.divide

    def time(self, ticks: int) -> int:
        """A point of time."""
        return self._ns0 + self.span(ticks - self._ticks0)


def node_numbers(spool: Spool, frames: Frames, tree: Tree) -> dict[int, list[int]]:
    """Each exact thread's nodes as nodes of `tree`, a line's as its function's.

    Those that only the events know are added.
    """
    numbers = {}
    for index, words in spool.exact_words.items():
        nodes = [0]
        for parent, word in zip(spool.exact_parents[index][1:], words[1:], strict=True):
            node = nodes[parent]
            nodes.append(node if word >= LINE_LIMIT else tree.child(node, frames.exact[word]))
        numbers[index] = nodes
    return numbers


def exact_rows(
    spool: Spool, tree: Tree, threads: dict[int, int], nodes: dict[int, list[int]]
) -> Iterator[Exact]:
    """The rows, thread by thread.

    `threads` is what match_threads returned, `nodes` what node_numbers did.  A total is that of all
    activations of the path; what still ran when the process was killed counts what it called, at
    least.
    """
    ticks = Ticks(spool)
    for index, of_thread in nodes.items():
        records: dict[int, _Record] = {}
        words = spool.exact_words[index]
        for count in spool.exact_counts[index].values():
            if words[count.node] < LINE_LIMIT:
                records.setdefault(of_thread[count.node], _Record()).add(count)
        yield from _rows(threads[index], records, tree, ticks, spool.end is not None)


def line_rows(spool: Spool, threads: dict[int, int], nodes: dict[int, list[int]]) -> Iterator[Line]:
    """The lines of chosen functions, which the spool has as leaves below their nodes."""
    ticks = Ticks(spool)
    for index, of_thread in nodes.items():
        words = spool.exact_words[index]
        records: dict[tuple[int, int], _Record] = {}
        for count in spool.exact_counts[index].values():
            if words[count.node] >= LINE_LIMIT:
                key = of_thread[count.node], words[count.node] - LINE_LIMIT
                records.setdefault(key, _Record()).add(count)
        for (node, line), r in sorted(records.items()):
            yield Line(threads[index], node, line, r.calls, ticks.span(r.ticks))


def _rows(
    thread: int,
    records: dict[int, _Record],
    tree: Tree,
    ticks: Ticks,
    complete: bool,
) -> Iterator[Exact]:
    total = {node: ticks.span(record.ticks) for node, record in records.items()}
    below = dict(zip(records, repeat(0), strict=False))
    for node in sorted(records, reverse=True):  # children before their parents
        if not complete:
            total[node] = max(total[node], below[node])
        parent = tree.node_parents[node]
        while parent and parent not in records:
            parent = tree.node_parents[parent]
        if parent:
            below[parent] += total[node]
    for node, r in sorted(records.items()):
        counts = r.calls, r.resumes, r.raised, r.seeded
        yield Exact(thread, node, *counts, total[node], total[node] - below[node])
