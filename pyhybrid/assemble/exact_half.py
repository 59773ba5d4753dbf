"""The exact half of a spool: each thread's tree of calls, joined with the sampled tree's nodes.

Events and samples number their nodes apart (src/record/spool.h).  A node is one by its path of
frames;
paths without a stack are added.

Self times are found in the events' own trees: there calls of a C function and the same function
where no call led to it (an iterator's) are two nodes, but one in the file.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pyhybrid.profile_file.tables import Exact, Line
from pyhybrid.spool.frame_words import LINE_LIMIT
from pyhybrid.spool.records import ExactCount, Spool


@dataclass(slots=True)
class _Record:
    calls: int = 0
    resumes: int = 0
    raised: int = 0
    seeded: int = 0
    total_ns: int = 0
    self_ns: int = 0

    def add(self, count: ExactCount, total_ns: int, self_ns: int) -> None:
        self.calls += count.calls
        self.resumes += count.resumes
        self.raised += count.raised
        self.seeded += count.seeded
        self.total_ns += total_ns
        self.self_ns += self_ns


class Ticks:
    """The exact half's clock: what its ticks are in nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self, spool: Spool) -> None:
        """By the first and the last pair of readings."""
        (self._ticks0, self._ns0), (ticks1, ns1) = [*spool.clocks, (0, 0), (0, 0)][:2]
        if len(spool.clocks) > 1:
            ticks1, ns1 = spool.clocks[-1]
        self._last_ticks = ticks1
        good = ticks1 > self._ticks0
        self.multiply, self.divide = (ns1 - self._ns0, ticks1 - self._ticks0) if good else (1, 1)

    def running(self, since: int) -> int:
        """Ticks of what has been running since then, up to the last reading; 0: nothing has."""
        return max(0, self._last_ticks - since) if since else 0

    def span(self, ticks: int) -> int:
        """A duration."""
        return ticks * self.multiply // self.divide

    def time(self, ticks: int) -> int:
        """A point of time."""
        return self._ns0 + self.span(ticks - self._ticks0)


def exact_rows(
    spool: Spool,
    threads: dict[int, int],
    nodes: dict[int, list[int]],
    left_out: Collection[int] = (),
) -> Iterator[Exact]:
    """The rows, thread by thread.

    `threads` is Spool.exact_threads, `nodes` are Tree.exact_nodes by thread.  A total is
    that of all activations of the path; of what ran when the process was killed, up to its last
    round of counters.  Nodes that are `left_out` have no row: their time is their callers'.
    """
    ticks = Ticks(spool)
    for index, of_thread in nodes.items():
        words, counts = spool.exact_words[index], spool.exact_counts[index]
        counts = {
            node: count
            for node, count in counts.items()
            if words[node] < LINE_LIMIT and of_thread[node] not in left_out
        }
        total, below = _times(spool, index, counts, ticks)
        records: dict[int, _Record] = {}
        for node, count in counts.items():
            record = records.setdefault(of_thread[node], _Record())
            record.add(count, total[node], total[node] - below[node])
        for node, r in sorted(records.items()):
            figures = r.calls, r.resumes, r.raised, r.seeded, r.total_ns, r.self_ns
            yield Exact(threads[index], node, *figures)


def line_rows(spool: Spool, threads: dict[int, int], nodes: dict[int, list[int]]) -> Iterator[Line]:
    """The lines of chosen functions, which the spool has as leaves below their nodes."""
    ticks = Ticks(spool)
    for index, of_thread in nodes.items():
        words = spool.exact_words[index]
        records: dict[tuple[int, int], list[int]] = {}
        for count in spool.exact_counts[index].values():
            if words[count.node] >= LINE_LIMIT:
                key = of_thread[count.node], words[count.node] - LINE_LIMIT
                record = records.setdefault(key, [0, 0])
                record[0] += count.calls
                record[1] += count.total_ticks
        for (node, line), (hits, n_ticks) in sorted(records.items()):
            yield Line(threads[index], node, line, hits, ticks.span(n_ticks))


def _times(
    spool: Spool, index: int, counts: dict[int, ExactCount], ticks: Ticks
) -> tuple[dict[int, int], dict[int, int]]:
    """Nanoseconds of a thread's nodes that have counts, and of the nearest such below each."""
    parents = spool.exact_parents[index]
    total = {
        node: ticks.span(count.total_ticks + ticks.running(count.since_ticks))
        for node, count in counts.items()
    }
    below = dict.fromkeys(counts, 0)
    for node in sorted(counts, reverse=True):  # children before their parents
        if spool.end is None:
            total[node] = max(total[node], below[node])
        parent = parents[node]
        while parent and parent not in counts:
            parent = parents[parent]
        if parent:
            below[parent] += total[node]
    return total, below
