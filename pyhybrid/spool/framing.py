"""Where a spool's records begin and which are whole (src/record/spool.h)."""

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import adler32

from pyhybrid._profile import SPOOL_MARK, SPOOL_REPLACED
from pyhybrid.spool.layout import HALF, HEADER, RECORD, TYPE

_MARK = struct.pack("<I", SPOOL_MARK)


class Record(NamedTuple):
    """The one at byte `at`, without its head; `kind` is of enum spool_type."""

    at: int
    kind: int
    body: memoryview


class Damage(NamedTuple):
    """Bytes from `at` on are no record."""

    at: int


def records(data: bytes, committed: int) -> Iterator[Record | Damage]:
    """All whole records of the file `data`, in order; a torn tail is no damage.

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
    """Those of a segment, up to the first place without a mark; what is torn there is no damage."""
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
    """Where the whole record at `at` ends, without its padding; None: there is none."""
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
    """The next whole record after `at`."""
    while (at := data.find(_MARK, at + 1)) >= 0:
        if at % 8 == 0 and at + RECORD.size <= len(data) and _end(view, at) is not None:
            return at
    return None


def _newest(at: int, kind: int, payload: memoryview, committed: int) -> Iterator[Record | Damage]:
    """What counts of its two halves: at most one record."""
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
