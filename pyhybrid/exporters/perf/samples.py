"""The SAMPLE records of perf.data: what the clock sampled, and exact self times as samples.

The two are events of their own (layout.Event), known by their place in the file's list.
A sample's period is nanoseconds of its event: the weight of the sampling clock, or the exact self
time of a call path on a thread, which is one sample.

Records are in order of time, in rounds: what reads the file need not keep it whole to sort it.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import batched, chain, repeat
from operator import itemgetter

from pyhybrid._columns import climb
from pyhybrid.exporters import ALL, Summed
from pyhybrid.exporters.perf import layout as form
from pyhybrid.tables import Chunk, stacks_of
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import periods_of, times

ROUND = 10_000  # records at least

SampleParts = tuple[bytes, bytes]  # what stands before a sample's own figures, and after them
Record = tuple[int, bytes]  # its time, and it
_TIME, _BYTES = itemgetter(0), itemgetter(1)


def in_rounds(batches: Iterable[tuple[int, list[Record]]], first: list[Record]) -> Iterator[bytes]:
    """Yield all records by time, those of `first` before others of their time.

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


def clock_samples(profile: Profile, chains: "Chains") -> Iterator[tuple[int, list[Record]]]:
    """Yield every sample, in batches."""
    begins: dict[int, bytes] = {}
    ends: dict[int, bytes] = {}
    for stacks in batched(sorted(profile.sampled_stacks), ROUND):
        for stack, parts in zip(stacks, chains.of(stacks), strict=True):
            begins[stack], ends[stack] = parts
    period_ns = profile.period_ns
    for chunk in sorted(profile.program_timeline(), key=lambda chunk: chunk.first_ns):
        pid, tid = profile.pid_of(chunk.thread), profile.threads[chunk.thread].tid
        at_ns, places = times(chunk), stacks_of(chunk.place)
        # All by C iterators: there is a record for each sample of the run.
        own = map(
            form.pack_own,
            *(repeat(pid), repeat(tid), at_ns, _cpus(chunk), repeat(0)),
            map(period_ns.__mul__, periods_of(chunk)),
        )
        whole = zip(
            map(begins.__getitem__, places), own, map(ends.__getitem__, places), strict=True
        )
        records = map(b"".join, whole)
        yield chunk.first_ns, list(zip(at_ns, records, strict=True))


def summed_samples(
    profile: Profile, chains: "Chains", rows: Iterable[Summed], time_ns: int | None
) -> Iterator[Record]:
    """Yield one sample for each of `rows`, at `time_ns` (None: when the thread was seen last)."""
    for row in rows:
        pid, thread = profile.pid_of(row.thread), profile.threads[row.thread]
        at_ns = time_ns or thread.last_ns or thread.start_ns
        ((begin, end),) = chains.of([row.row], row.frames)
        yield at_ns, begin + form.pack_own(pid, thread.tid, at_ns, 0, 0, row.weight_ns) + end


class Chains:
    """Make a call path's part of a record: its first bytes, and its last ones, the call chain."""

    def __init__(
        self, parents: Sequence[int], addresses: list[int], event: int, left_out: int
    ) -> None:
        """Take a tree by row; `event`: the place of the event whose samples they are; `left_out`:
        the address that stands for frames that are left out."""
        self.addresses = array("q", addresses)
        self._event, self._left_out, self._parents = event, left_out, array("I", parents)

    def of(self, rows: Sequence[int], frames: int = ALL) -> Iterator[SampleParts]:
        """Yield the parts of each row's path, `frames` from the leaf on."""
        addresses, ends = climb(self._parents, self.addresses, array("I", rows), frames)
        for row, begin, end in zip(rows, chain([0], ends), ends, strict=False):
            path = array("q", addresses[begin:end].tobytes())
            if frames < ALL and self.depths[row] > frames:
                path.append(self._left_out)
            last = form.chain_bytes(path)
            yield form.sample_begin(self._event, len(last), path[0]), last

    @cached_property
    def depths(self) -> list[int]:
        """Return how many frames each row's path has, as many as fit a record."""
        depths = [0]
        for parent in self._parents[1:]:
            depths.append(depths[parent] + 1)
        fit = form.MAX_CHAIN
        return [min(depth, fit) for depth in depths] if max(depths) > fit else depths

    def size(self, row: int, frames: int = ALL) -> int:
        """Return how many bytes a record with these frames takes, at most."""
        depth = self.depths[row]
        return form.sample_size(depth if depth <= frames else frames + 1)

    def total_bytes(self, rows: list[int]) -> int:
        """Return the size of a record for each of `rows`, with its whole path."""
        return form.sample_size(0) * len(rows) + form.FRAME_SIZE * sum(
            map(self.depths.__getitem__, rows)
        )


def _cpus(chunk: Chunk) -> list[int]:
    cpus: list[int] = []
    changes = sorted(chunk.cpus.items())
    ends = [*(index for index, _ in changes[1:]), len(chunk.place)]
    for (_, cpu), end in zip(changes, ends, strict=True):
        cpus += [cpu] * (end - len(cpus))
    return cpus
