"""The SAMPLE records of perf.data: what the clock sampled, and exact self times as samples.

The two are events of their own (perf_format.Event), told apart by their place in the file's list.
A sample's period is nanoseconds of its event: the weight of the sampling clock, or the exact self
time of a call path on a thread, which is one sample.

Records are in order of time, in rounds: what reads the file need not keep it whole to sort it.
"""

from array import array
from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, count
from operator import itemgetter

from pyhybrid.chunks import times
from pyhybrid.exporters import perf_format as form
from pyhybrid.exporters.addresses import SyntheticAddresses, node_addresses, stack_addresses
from pyhybrid.profile_file import Profile
from pyhybrid.rows import Chunk, Exact, stack_of

ROUND = 10_000  # records at least

SampleParts = tuple[tuple[int, int, int, int, int], bytes]  # a head's constants, and the chain
Record = tuple[int, bytes]  # its time, and it
_TIME, _BYTES = itemgetter(0), itemgetter(1)


def in_rounds(batches: Iterable[tuple[int, list[Record]]], first: list[Record]) -> Iterator[bytes]:
    """All records by time, those of `first` before others of their time.

    A batch comes with a time before which neither it nor a later one has records.
    """
    pending, enough = [*first], ROUND
    for begin_ns, records in batches:
        if len(pending) > enough:
            pending.sort(key=_TIME)
            n_ready = bisect_left(pending, begin_ns, key=_TIME)
            yield b"".join(map(_BYTES, pending[:n_ready]))
            yield form.FINISHED_ROUND
            del pending[:n_ready]
            enough = max(ROUND, 2 * len(pending))
        pending += records
    pending.sort(key=_TIME)
    yield b"".join(map(_BYTES, pending))


def clock_samples(profile: Profile, chains: "StackChains") -> Iterator[tuple[int, list[Record]]]:
    """Every sample, in batches."""
    pid, pack, of_stack = profile.process.pid, form.pack_sample, chains.of_stack
    period_ns = profile.period_ns
    for chunk in sorted(profile.timeline(), key=lambda chunk: chunk.first_ns):
        tid = profile.threads[chunk.thread].tid
        records: list[Record] = []
        for place, time_ns, cpu, periods in zip(
            chunk.place, times(chunk), _cpus(chunk), _weights(chunk), strict=True
        ):
            constants, chain = of_stack[stack_of(place)]
            sample = pack(*constants, pid, tid, time_ns, cpu, 0, periods * period_ns)
            records.append((time_ns, sample + chain))
        yield chunk.first_ns, records


def summed_samples(profile: Profile, chains: "StackChains") -> Iterator[tuple[int, list[Record]]]:
    """One sample for each thread and stack, with all their weight; one batch."""
    pid = profile.process.pid
    weights: Counter[tuple[int, int]] = Counter()
    for sampled in profile.sampled:
        weights[sampled.thread, sampled.stack] += sampled.weight_ns
    records: list[Record] = []
    for (number, stack), weight_ns in weights.items():
        thread = profile.threads[number]
        constants, chain = chains.of_stack[stack]
        time_ns = thread.first_ns or 0
        sample = form.pack_sample(*constants, pid, thread.tid, time_ns, 0, 0, weight_ns)
        records.append((time_ns, sample + chain))
    yield 0, records


def exact_samples(
    profile: Profile, chains: "NodeChains", rows: Iterable[Exact], time_ns: int | None
) -> Iterator[Record]:
    """One sample for each path with exact self time on a thread, at `time_ns` (None: when the
    thread was seen last)."""
    pid = profile.process.pid
    for row in rows:
        thread = profile.threads[row.thread]
        at_ns = time_ns or thread.last_ns or thread.start_ns
        constants, chain = chains.of_node(row.node)
        sample = form.pack_sample(*constants, pid, thread.tid, at_ns, 0, 0, row.self_ns)
        yield at_ns, sample + chain


class StackChains:
    """Each sampled stack's part of a record: constants of its head, and the call chain's bytes."""

    def __init__(self, profile: Profile, synthetic: SyntheticAddresses, event: int) -> None:
        """`event`: the place of the event whose samples they are."""
        paths = _Paths(profile.stacks.parent, stack_addresses(profile, synthetic))
        self._profile = profile
        self.of_stack: dict[int, SampleParts] = {
            stack: _parts(event, paths.to(stack))
            for stack in sorted({sampled.stack for sampled in profile.sampled})
        }

    def total_bytes(self) -> int:
        """The size of all samples, each a record."""
        return sum(each.samples * self.of_stack[each.stack][0][2] for each in self._profile.sampled)


class NodeChains:
    """The same for the paths with exact self time."""

    def __init__(self, profile: Profile, synthetic: SyntheticAddresses, event: int) -> None:
        """`event`: the place of the event whose samples they are."""
        self.rows: list[Exact] = [row for row in profile.exact if row.self_ns > 0]
        self._event, self._parents = event, profile.nodes.parent
        if self.rows:
            self._paths = _Paths(self._parents, node_addresses(profile, synthetic))

    def of_node(self, node: int) -> SampleParts:
        """What the record of a node of `rows` is made of."""
        return _parts(self._event, self._paths.to(node))

    def total_bytes(self) -> int:
        """The size of all samples."""
        return sum(self._sizes())

    def keep_longest(self, limit_bytes: int) -> float:
        """Leaves out the rows with least time, until all fit.  The share of time that stays."""
        whole = sum(row.self_ns for row in self.rows)
        sized = zip(self.rows, self._sizes(), strict=True)
        by_time = sorted(sized, key=lambda each: -each[0].self_ns)
        ends = accumulate(size for _, size in by_time)
        kept = {row for (row, _), end in zip(by_time, ends, strict=True) if end <= limit_bytes}
        self.rows = [row for row in self.rows if row in kept]
        return sum(row.self_ns for row in self.rows) / (whole or 1)

    def _sizes(self) -> Iterator[int]:
        depths = [0]
        for parent in self._parents[1:]:
            depths.append(depths[parent] + 1)
        return (form.sample_size(depths[row.node]) for row in self.rows)


class _Paths:
    """Addresses from rows of a tree to its root.

    A new path's rows were numbered one after the other, so a path is a few runs of rows.
    """

    def __init__(self, parents: list[int], addresses: list[int]) -> None:
        """Both by row."""
        self._parents, self._addresses = parents, array("q", addresses)
        neighbours = zip(parents[2:], count(1))
        self._begins = [1, *(row + 1 for parent, row in neighbours if parent != row)]

    def to(self, row: int) -> "array[int]":
        """The addresses, leaf first."""
        path = array("q")
        while row:
            begin = self._begins[bisect(self._begins, row) - 1]
            path += self._addresses[row : begin - 1 : -1]
            row = self._parents[begin]
        return path


def _parts(event: int, path: "array[int]") -> SampleParts:
    chain = form.chain_bytes(path)
    return form.sample_constants(event, len(chain), path[0]), chain


def _weights(chunk: Chunk) -> Iterable[int]:
    weights = [1] * len(chunk.place)
    for index, periods in chunk.weights.items():
        weights[index] = periods
    return weights


def _cpus(chunk: Chunk) -> list[int]:
    cpus: list[int] = []
    changes = sorted(chunk.cpus.items())
    ends = [*(index for index, _ in changes[1:]), len(chunk.place)]
    for (_, cpu), end in zip(changes, ends, strict=True):
        cpus += [cpu] * (end - len(cpus))
    return cpus
