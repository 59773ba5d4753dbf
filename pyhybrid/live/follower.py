"""Follows one spool (src/record/spool.h) while it grows: each time only what is new.

What was added is read from where the last reading ended; of a record that is replaced in its place
the heads of both halves tell whether there is anything new.  Samples are counted as they come and
not kept, so what is in memory are the trees of calls, which the run bounds (--max-nodes).
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from zlib import adler32

from pyhybrid._columns import SPOOL_MARK, SPOOL_REPLACED
from pyhybrid.base.structs import Struct, made
from pyhybrid.capture.children import RECORDER
from pyhybrid.capture.jit_files import stat_fields
from pyhybrid.errors import PyhybridError
from pyhybrid.spool import HALF, HEADER, RECORD, TYPE
from pyhybrid.spool.content import Chunk, Spool
from pyhybrid.spool.decoders import DECODERS
from pyhybrid.spool.reader import check_header, name_main_thread

_AT_ONCE = 4 << 20  # bytes that are read of what is new
_NAMES = (
    "META MODULE MODULE_END CODE THREAD THREAD_NAME STACKS FUNCTIONS SAMPLES EXACT_THREAD "
    "EXACT_NODES REGION C_FUNCTION FUNCTION_NAME WATCHED END"
)
_ADDED = frozenset(TYPE[name] for name in _NAMES.split())
_REPLACED = frozenset(
    TYPE[name] for name in ("COUNTERS", "EXACT_COUNTERS", "CLOCK", "FOLDED", "MERGED", "SUMS")
)
_CODE, _SUMS, _SEGMENT = TYPE["CODE"], TYPE["SUMS"], TYPE["SAMPLE_SEGMENT"]
_NUMBER = struct.Struct("<Q")  # of a segment


class _Place(Struct):
    """Hold where a record is that is replaced: its first half, how long each is, and the round of
    what was taken of it."""

    at: int
    kind: int
    size: int
    taken: int = 0


class _Segment(Struct):
    """Hold a segment: its content, and how much of it was taken, while it had this number."""

    at: int
    size: int
    number: int = 0
    taken: int = 0


class Taken(Struct):
    """Hold what came since the last reading: how many periods of samples, by thread and place; by
    the exact half's thread watched calls; and counts that changed."""

    weights: dict[int, Counter[int]] = made(dict)
    samples: int = 0
    watched: dict[int, list[tuple[int, ...]]] = made(dict)
    counted: list[tuple[int, int, memoryview]] = made(list)  # as Spool.counted


class BeginsAnew(PyhybridError):
    """Tell that what the spool has is of the next window of a flight recorder (--keep-last)."""


class Follower:
    """Follow the spool at `path`; `spool` has what it holds, but for samples and single calls."""

    def __init__(self, path: str) -> None:
        """Open it.  Raises PyhybridError where it is none, or of another version."""
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise PyhybridError(f"cannot read {path}: {error.strerror}") from error
        self.spool = Spool(path, 0)
        self.committed = 0
        self.is_first = True
        self._at = HEADER.size
        self._first = b""  # the head of its first record, which no other window has
        self._stuck = -1  # what begins there is no whole record, yet
        self._places: list[_Place] = []
        self._segments: list[_Segment] = []

    def close(self) -> None:
        """Close it."""
        os.close(self._file)

    @property
    def is_begun(self) -> bool:
        """Has it recorded at what rate it samples, without which nothing else can be read?"""
        return "period_ns" in self.spool.meta

    @property
    def runs(self) -> bool:
        """Does the process live, and record?"""
        if self.is_window and self.spool.meta.get("how") == "root":  # the next one has its place
            if not os.fstat(self._file).st_nlink:  # the profile is made
                return False
        elif self.is_first or self.spool.end:
            return not self.spool.end
        with suppress(OSError):
            return stat_fields(str(self.spool.pid))[0] not in b"ZX"
        return False

    @property
    def is_window(self) -> bool:
        """Is it a window of a flight recorder?"""
        return RECORDER in self.spool.meta

    def read(self) -> Taken:
        """Take what is new.  Raises BeginsAnew where it is none of that, PyhybridError where it
        is no spool, or of another version."""
        taken = Taken()
        try:
            head = os.pread(self._file, HEADER.size, 0)
            self._check_first()
            if len(head) < HEADER.size:
                return taken  # it is about to begin
            self.spool.pid, self.committed = check_header(self.path, head)
            for data in self._added():
                self._take_added(data, taken)
            self._take_replaced(taken)
            self._take_segments(taken)
            self._check_first()
        except OSError as error:
            raise PyhybridError(f"cannot read {self.path}: {error.strerror}") from error
        self.is_first = False
        self._take_samples(taken)
        taken.watched, self.spool.watched = self.spool.watched, {}
        name_main_thread(self.spool)
        return taken

    def _check_first(self) -> None:
        first = os.pread(self._file, RECORD.size, HEADER.size)
        if self._first and first != self._first:
            raise BeginsAnew(self.path)
        self._first = first if len(first) == RECORD.size else b""

    # --- what was added ---------------------------------------------------------------------------

    def _added(self) -> Iterator[memoryview]:
        """Yield the bytes from where the last reading ended, in parts; who takes records of one
        moves on to behind them."""
        while True:
            begin, wanted = self._at, _AT_ONCE
            data = os.pread(self._file, wanted, begin)
            if len(data) >= RECORD.size:
                mark, _, kind, length = RECORD.unpack_from(data)
                is_long = mark == SPOOL_MARK and RECORD.size + length > wanted
                if is_long and not kind & SPOOL_REPLACED and kind in _ADDED:
                    data = os.pread(self._file, RECORD.size + length, begin)
            yield memoryview(data)
            if self._at == begin:
                return

    def _take_added(self, data: memoryview, taken: Taken) -> None:
        begin, at = self._at, 0
        left = os.fstat(self._file).st_size - begin
        while at + RECORD.size <= len(data):
            mark, check, kind, length = RECORD.unpack_from(data, at)
            end = at + RECORD.size + length
            in_place = kind & SPOOL_REPLACED or kind == _SEGMENT
            checked = data[at + 8 : at + RECORD.size if in_place else end]
            if in_place:
                is_whole = adler32(checked) == check
            elif kind in _ADDED:
                is_whole = end <= len(data) and adler32(checked) == check
            else:
                is_whole = end <= left  # it is not even read
            is_whole &= mark == SPOOL_MARK
            if not is_whole:
                found = self._next(data, at) if self._stuck == begin + at else -1
                self._stuck = begin + at
                if found < 0:
                    break
                self.spool.n_damaged += 1
                at = found
                continue
            body = data[at + RECORD.size : end]
            if kind & SPOOL_REPLACED:
                half = _Place(begin + at + RECORD.size, kind & ~SPOOL_REPLACED, length // 2)
                if half.kind in _REPLACED and half.size >= HALF.size:
                    self._places.append(half)
            elif kind == _SEGMENT:
                self._segments.append(_Segment(begin + at + RECORD.size, length))
            elif kind in _ADDED:
                self._decode(kind, body)
            at = end + -end % 8
        self._at = begin + at
        self._take_samples(taken)

    def _next(self, data: memoryview, at: int) -> int:
        """Return where the next record may begin, behind one that stays damaged; -1: nowhere."""
        mark, text = struct.pack("<I", SPOOL_MARK), bytes(data)
        while (at := text.find(mark, at + 1)) >= 0 and at % 8:
            pass
        return at

    def _decode(self, kind: int, body: memoryview) -> None:
        spool = self.spool
        try:
            DECODERS[kind](spool, body)
        except (struct.error, ValueError, TypeError, KeyError):
            spool.n_damaged += 1
            return
        if kind == _CODE:  # its lines are not asked for
            number = next(reversed(spool.codes))
            spool.codes[number] = spool.codes[number]._replace(line_table=b"")

    # --- what is in one place ---------------------------------------------------------------------

    def _take_segments(self, taken: Taken) -> None:
        for segment in self._segments:
            head = os.pread(self._file, _NUMBER.size, segment.at)
            number = _NUMBER.unpack(head)[0] if len(head) == _NUMBER.size else 0
            if not number:
                continue
            if number != segment.number:
                is_summed = self.is_first and number < self.spool.merged_before
                segment.number = number
                segment.taken = segment.size if is_summed else _NUMBER.size
            data = os.pread(self._file, segment.size - segment.taken, segment.at + segment.taken)
            at = 0
            while at + RECORD.size <= len(data):
                mark, check, kind, length = RECORD.unpack_from(data, at)
                end = at + RECORD.size + length
                if mark != SPOOL_MARK or adler32(data[at + 8 : end]) != check:
                    break
                self._decode(kind, memoryview(data)[at + RECORD.size : end])
                at = end + -end % 8
            segment.taken += at
            self._take_samples(taken)

    def _take_replaced(self, taken: Taken) -> None:
        for place in self._places:
            if place.kind == _SUMS and not self.is_first:
                continue  # of samples that were taken before they were added up
            found = self._newest(place)
            if found is not None:
                self._decode(place.kind, found)
        spool = self.spool
        taken.counted, spool.counted = spool.counted, []
        for row in spool.sums:
            taken.weights.setdefault(row.thread, Counter())[row.place] += row.weight
            taken.samples += row.samples
        spool.sums.clear()

    def _newest(self, place: _Place) -> memoryview | None:
        """Return the content of its newest half that counts; None: that was taken, or both are
        being written."""
        best, where = place.taken, -1
        for at in (place.at, place.at + place.size):
            head = os.pread(self._file, HALF.size, at)
            if len(head) < HALF.size:
                continue  # the file breaks off
            length, check, number = HALF.unpack(head)
            if best < number <= self.committed and length <= place.size - HALF.size:
                best, where = number, at
        if where < 0:
            return None
        data = os.pread(self._file, place.size, where)
        length, check, number = HALF.unpack_from(data)
        content = memoryview(data)[HALF.size : HALF.size + length]
        known = adler32(data[8:16], adler32(data[:4]))
        if number != best or adler32(content, known) != check:
            return None
        place.taken = best
        return content

    # --- samples ----------------------------------------------------------------------------------

    def _take_samples(self, taken: Taken) -> None:
        for chunk in self.spool.chunks:
            taken.samples += len(chunk.place)
            of_thread = taken.weights.get(chunk.thread)
            if of_thread is None:
                of_thread = taken.weights[chunk.thread] = Counter()
            _count(chunk, of_thread)
        self.spool.chunks.clear()


def _count(chunk: Chunk, weights: Counter[int]) -> None:
    weights.update(chunk.place)
    for index, weight in zip(chunk.weights[::2], chunk.weights[1::2], strict=True):
        weights[chunk.place[index]] += weight - 1
