"""Reader of the spool, `PREFIX.pyhybrid.part`, which the profiled process appends to.

The format is src/record/spool.h's; words and their fields are src/base/frame.h's.  A process that
was killed leaves a torn last record, which is ignored; a damaged record costs what hangs on it.
Nothing is decoded sample by sample: a chunk's arrays are views into the file's bytes.
"""

import os
import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple
from zlib import adler32

from pyhybrid._columns import (
    NAME_COMM,
    NAME_THREADING,
    SPOOL_MARK,
    SPOOL_REPLACED,
    SPOOL_VERSION,
    exact_counts,
)
from pyhybrid.base.pseudo_frames import TIMES
from pyhybrid.errors import PyhybridError
from pyhybrid.spool import EXACT_COUNT, HALF, HEADER, MAGIC, RECORD, TYPE
from pyhybrid.spool.content import MAIN_THREAD, BackwardSum, BackwardTurn, Chunk, Spool
from pyhybrid.spool.decoders import DECODERS

# Where a spool's records begin and which are whole (src/record/spool.h).

_MARK = struct.pack("<I", SPOOL_MARK)


class Record(NamedTuple):
    """A record is the one at byte `at`, without its head; `kind` is of enum spool_type."""

    at: int
    kind: int
    body: memoryview


class Damage(NamedTuple):
    """Bytes from `at` on are no record."""

    at: int


def records(data: bytes, committed: int) -> Iterator[Record | Damage]:
    """Yield all whole records of the file `data`, in order; a torn tail is no damage.

    Of a record that is replaced in its place, `body` is the content of the last round up to
    `committed`.
    """
    view = memoryview(data)
    at = HEADER.size
    while at + RECORD.size <= len(data):
        end = _end(view, at)
        if end is None:
            found = _next(data, view, at)
            if found is None:
                return
            yield Damage(at)
            at = found
            continue
        _, _, kind, _ = RECORD.unpack_from(view, at)
        payload = view[at + RECORD.size : end]
        if kind & SPOOL_REPLACED:
            yield from _newest(at, kind & ~SPOOL_REPLACED, payload, committed)
        else:
            yield Record(at, kind, payload)
        at = end + -end % 8


def records_of_segment(body: memoryview) -> Iterator[Record | Damage]:
    """Yield those of a segment, up to the first place without a mark; a torn one is no damage."""
    at = 0
    while at + RECORD.size <= len(body):
        mark, _, kind, length = RECORD.unpack_from(body, at)
        if mark != SPOOL_MARK:
            return
        end = _end(body, at)
        if end is None:
            yield Damage(at)
            end = at + RECORD.size + length
        else:
            yield Record(at, kind, body[at + RECORD.size : end])
        at = end + -end % 8


def _end(data: memoryview, at: int) -> int | None:
    """Return where the whole record at `at` ends, without its padding; None: there is none."""
    mark, check, kind, length = RECORD.unpack_from(data, at)
    begin = at + RECORD.size
    end = begin + length
    if mark != SPOOL_MARK or end > len(data):
        return None
    known = adler32(data[begin - 8 : begin])
    if not kind & SPOOL_REPLACED and kind != TYPE["SAMPLE_SEGMENT"]:
        known = adler32(data[begin:end], known)
    return end if known == check else None


def _next(data: bytes, view: memoryview, at: int) -> int | None:
    """Return the next whole record after `at`."""
    while (at := data.find(_MARK, at + 1)) >= 0:
        if at % 8 == 0 and at + RECORD.size <= len(data) and _end(view, at) is not None:
            return at
    return None


def _newest(at: int, kind: int, payload: memoryview, committed: int) -> Iterator[Record | Damage]:
    """Yield what counts of its two halves: at most one record."""
    size = len(payload) // 2
    if size < HALF.size:
        yield Damage(at)
        return
    rounds: dict[int, memoryview] = {}
    damaged = False
    for half in (payload[:size], payload[size : 2 * size]):
        length, check, number = HALF.unpack_from(half)
        content = half[HALF.size : HALF.size + length]
        if not number or number > committed:
            continue  # empty, or being written when the process was killed
        head = adler32(half[8:16], adler32(half[:4]))
        if len(content) == length and adler32(content, head) == check:
            rounds[number] = content
        else:
            damaged = True
    if rounds:
        yield Record(at, kind, rounds[max(rounds)])
    elif damaged:
        yield Damage(at)


# Samples of several threads that are one row, in order of time.
#
# Chunks come thread by thread as they were drained, so they are in order but for those of one
# drain.

_MOST_SAMPLES = 1024  # samples in one chunk, as the profiled process writes them
_LONGEST_NS = (1 << 32) - 1  # between two samples of one


def in_order(chunks: list[Chunk]) -> list[Chunk]:
    """Return the same samples of one thread in order of time."""
    chunks.sort(key=lambda chunk: chunk.first_ns)
    ends = [chunk.first_ns + sum(chunk.dt_ns) for chunk in chunks]
    if all(end <= after.first_ns for end, (_, after) in zip(ends, pairwise(chunks), strict=False)):
        return chunks
    samples = [sample for chunk in chunks for sample in _samples_of(chunk)]
    samples.sort()
    ordered: list[Chunk] = []
    part: list[tuple[int, int, int, int]] = []
    for sample in samples:
        if part and (len(part) == _MOST_SAMPLES or sample[0] - part[-1][0] > _LONGEST_NS):
            ordered.append(_chunk(chunks[0].thread, part))
            part = []
        part.append(sample)
    return [*ordered, _chunk(chunks[0].thread, part)]


def _samples_of(chunk: Chunk) -> list[tuple[int, int, int, int]]:
    """Return time, place, weight and CPU of each."""
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


def _keep_whole(spool: Spool) -> None:
    """Drop what has no node at the end: counts may be written before their nodes."""
    known = {thread: len(words) for thread, words in spool.exact_words.items()}
    spool.exact_counts = {thread: bytearray(n * EXACT_COUNT.size) for thread, n in known.items()}
    for thread, first_id, rows in spool.counted:
        spool.n_damaged += exact_counts(spool.exact_counts[thread], first_id, rows)
    spool.counted.clear()
    spool.backward_sums = [_unfolded(spool, each) for each in spool.backward_sums]
    spool.backward_turns = [_unfolded(spool, each) for each in spool.backward_turns]
    spool.backward_sums = [
        each if each.node < known.get(each.thread, 0) else each._replace(thread=0, node=0)
        for each in spool.backward_sums
    ]
    spool.backward_turns = [
        each if each.node < known.get(each.thread, 0) else each._replace(thread=0, node=0)
        for each in spool.backward_turns
    ]
    for thread, calls in spool.watched.items():
        calls[:] = (call for call in calls if 0 < call[4] < known.get(thread, 0))
    times = {at: each for at, each in spool.call_times.items() if 0 < at[1] < known.get(at[0], 0)}
    spool.n_damaged += len(spool.call_times) - len(times)
    spool.call_times = times


def _unfolded[W: (BackwardSum, BackwardTurn)](spool: Spool, work: W) -> W:
    """Return work for a call of a thread that was folded with the place of that in the tree."""
    index, nodes = spool.folded_nodes.get(work.thread, (0, None))
    if nodes is None or not 0 < work.node <= len(nodes):
        return work
    return work._replace(thread=index, node=nodes[work.node - 1])


def _merge_folded(spool: Spool) -> None:
    """Merge rows of several threads: by their name, and their samples in order of time."""
    for index, n_threads in spool.folded.items():
        thread = spool.threads[index]
        thread.name, thread.name_source = f"{thread.name}{TIMES}{n_threads:,}", NAME_THREADING
    chunks = [each for each in spool.chunks if each.thread not in spool.folded]
    folded: dict[int, list[Chunk]] = {}
    for each in spool.chunks:
        if each.thread in spool.folded:
            folded.setdefault(each.thread, []).append(each)
    for of_thread in folded.values():
        chunks += in_order(of_thread)
    spool.chunks = chunks


def _take(spool: Spool, found: Iterable[Record | Damage]) -> None:
    for each in found:
        if isinstance(each, Damage):
            spool.n_damaged += 1
            continue
        decode = DECODERS.get(each.kind)
        if decode is None:
            continue
        try:
            decode(spool, each.body)
        except (struct.error, ValueError, TypeError, KeyError):
            spool.n_damaged += 1


def name_main_thread(spool: Spool) -> None:
    """Name it as `threading` calls it, whether the program imports that or not, unless it named it
    so or, since the run began, for the kernel."""
    for thread in spool.threads.values():
        is_named = thread.name_source != NAME_COMM
        is_as_it_began = spool.meta.get("comm") in (None, thread.comm)
        if thread.tid == spool.pid and not is_named and is_as_it_began:
            thread.name = MAIN_THREAD


def check_header(path: str, head: bytes) -> tuple[int, int]:
    """Return the process, and the last round of what is replaced that counts, of a spool's header.

    Raises PyhybridError where it is none, or of another version.
    """
    if not head.startswith(MAGIC):
        raise PyhybridError(f"{path}: not a pyhybrid spool")
    _, version, pid, committed = HEADER.unpack(head)
    if version != SPOOL_VERSION:
        age = "a newer" if version > SPOOL_VERSION else "an older"
        raise PyhybridError(
            f"{path}: written by {age} pyhybrid: spool version {version}, not {SPOOL_VERSION}"
        )
    return pid, committed


def read(path: str) -> Spool:
    """Read the spool at `path`; its samples are views into the file's bytes.

    A torn tail is no error; records that are damaged, or refer to one that is, are left out and
    counted.  Raises PyhybridError where the file is missing, is no spool, is of another version, or
    breaks off before anything was recorded.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
            # The last thing that is written, so it is read last: the run may go on meanwhile.
            head = os.pread(file.fileno(), HEADER.size, 0).ljust(HEADER.size, b"\0")
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from error
    pid, committed = check_header(path, head)
    spool = Spool(path, pid)
    _take(spool, records(data, committed))
    for number, segment in sorted(spool.segments.items()):
        if number >= max(spool.merged_before, 1):
            _take(spool, records_of_segment(segment))
    spool.segments.clear()
    _keep_whole(spool)
    _merge_folded(spool)
    name_main_thread(spool)
    if "period_ns" not in spool.meta:
        raise PyhybridError(f"{path}: breaks off before anything was recorded")
    return spool
