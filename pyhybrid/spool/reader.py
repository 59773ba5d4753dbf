"""Reader of the spool, `PREFIX.pyhybrid.part`, which the profiled process appends to.

The format is src/record/spool.h's; words and their fields are src/base/frame.h's.  A process that
was killed leaves a torn last record, which is ignored; a damaged record costs what hangs on it.
Nothing is decoded sample by sample: a chunk's arrays are views into the file's bytes.
"""

import os
import struct
from collections.abc import Iterable

from pyhybrid._profile import NAME_COMM, NAME_THREADING, SPOOL_VERSION, exact_counts
from pyhybrid.base.pseudo_frames import TIMES
from pyhybrid.errors import PyhybridError
from pyhybrid.spool.decoders import DECODERS
from pyhybrid.spool.framing import Damage, Record, records, records_of_segment
from pyhybrid.spool.layout import EXACT_COUNT, HEADER, MAGIC
from pyhybrid.spool.records import MAIN_THREAD, Chunk, Spool
from pyhybrid.spool.sample_order import in_order


def _keep_whole(spool: Spool) -> None:
    """Counts may be written before their nodes: what has none at the end is dropped."""
    known = {thread: len(words) for thread, words in spool.exact_words.items()}
    spool.exact_counts = {thread: bytearray(n * EXACT_COUNT.size) for thread, n in known.items()}
    for thread, first_id, rows in spool.counted:
        spool.n_damaged += exact_counts(spool.exact_counts[thread], first_id, rows)
    spool.counted.clear()
    spool.later = [
        each if each.node < known.get(each.thread, 0) else each._replace(thread=0, node=0)
        for each in spool.later
    ]
    spool.later_turns = [
        each if each.node < known.get(each.thread, 0) else each._replace(thread=0, node=0)
        for each in spool.later_turns
    ]
    for thread, calls in spool.watched.items():
        calls[:] = (call for call in calls if 0 < call[4] < known.get(thread, 0))
    times = {at: each for at, each in spool.call_times.items() if 0 < at[1] < known.get(at[0], 0)}
    spool.n_damaged += len(spool.call_times) - len(times)
    spool.call_times = times


def _merge_folded(spool: Spool) -> None:
    """Rows of several threads: by their name, and their samples in order of time."""
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


def _name_main_thread(spool: Spool) -> None:
    """As `threading` calls it, whether the program imports that or not, unless it named it so or,
    since the run began, for the kernel."""
    for thread in spool.threads.values():
        is_named = thread.name_source != NAME_COMM
        is_as_it_began = spool.meta.get("comm") in (None, thread.comm)
        if thread.tid == spool.pid and not is_named and is_as_it_began:
            thread.name = MAIN_THREAD


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
    if not head.startswith(MAGIC):
        raise PyhybridError(f"{path}: not a pyhybrid spool")
    _, version, pid, committed = HEADER.unpack(head)
    if version != SPOOL_VERSION:
        age = "a newer" if version > SPOOL_VERSION else "an older"
        raise PyhybridError(
            f"{path}: written by {age} pyhybrid: spool version {version}, not {SPOOL_VERSION}"
        )
    spool = Spool(path, pid)
    _take(spool, records(data, committed))
    for number, segment in sorted(spool.segments.items()):
        if number >= max(spool.merged_before, 1):
            _take(spool, records_of_segment(segment))
    spool.segments.clear()
    _keep_whole(spool)
    _merge_folded(spool)
    _name_main_thread(spool)
    if "period_ns" not in spool.meta:
        raise PyhybridError(f"{path}: breaks off before anything was recorded")
    return spool
