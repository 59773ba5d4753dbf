"""The exact half of a spool: each thread's tree of calls, joined with the sampled tree's nodes.

Events and samples number their threads and nodes apart (src/spool.h).  A thread of one half is
that of the other if tid and time agree; a node is one by its path of frames.  What only the events
saw is added: threads without a sample, paths without a stack.

Self times are found in the events' own trees: there calls of a C function and the same function
where no call led to it (an iterator's) are two nodes, but one in the file.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pyhybrid.frames import Frames
from pyhybrid.rows import Exact
from pyhybrid.spool import ExactCount, ExactThread, Spool, Thread
from pyhybrid.tree import Tree


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


def _nanoseconds(spool: Spool) -> tuple[int, int]:
    """Ticks times the first number, divided by the second one, are nanoseconds."""
    if len(spool.clocks) < 2:
        return 1, 1
    (ticks0, ns0), (ticks1, ns1) = spool.clocks[0], spool.clocks[-1]
    return (ns1 - ns0, ticks1 - ticks0) if ticks1 > ticks0 else (1, 1)


def exact_rows(
    spool: Spool, frames: Frames, tree: Tree, threads: dict[int, int]
) -> Iterator[Exact]:
    """The rows, thread by thread; nodes that only the events know are added to `tree`.

    `threads` is what match_threads returned.  A total is that of all activations of the path; what
    still ran when the process was killed counts what it called, at least.
    """
    for index in spool.exact_words:
        nodes = tree.exact_nodes(spool, frames, index)
        counts = spool.exact_counts[index]
        total, below = _times(spool, index)
        records: dict[int, _Record] = {}
        for node, count in counts.items():
            record = records.setdefault(nodes[node], _Record())
            record.add(count, total[node], total[node] - below[node])
        for node, r in sorted(records.items()):
            figures = r.calls, r.resumes, r.raised, r.seeded, r.total_ns, r.self_ns
            yield Exact(threads[index], node, *figures)


def _times(spool: Spool, index: int) -> tuple[dict[int, int], dict[int, int]]:
    """Nanoseconds of a thread's nodes that have counts, and of the nearest such below each."""
    multiply, divide = _nanoseconds(spool)
    counts, parents = spool.exact_counts[index], spool.exact_parents[index]
    total = {node: count.total_ticks * multiply // divide for node, count in counts.items()}
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
