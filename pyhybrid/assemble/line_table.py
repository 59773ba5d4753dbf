"""The location table of a code object (co_linetable): from an instruction to its line.

Format: PEP 626, PEP 657 and CPython's Objects/locations.md (3.11 to 3.15: the same).  An entry is
a byte with bit 7 set (bits 3..6: the form, bits 0..2: code units covered - 1) and bytes without
it, so entries are found without decoding the columns.
"""

import re
from bisect import bisect_right

_ENTRY = re.compile(rb"[\x80-\xff][\x00-\x7f]*")

# Forms: 0-9 short (same line), 10-12 one line (line + form - 10), 13 no column, 14 long,
# 15 no location.
_ONE_LINE, _NO_COLUMN, _NONE = 10, 13, 15


def _signed(entry: bytes) -> int:
    """The signed varint after an entry's first byte: 6 bits a byte, the lowest first."""
    value = shift = 0
    for byte in entry[1:]:
        value |= (byte & 63) << shift
        if not byte & 64:
            break
        shift += 6
    return -(value >> 1) if value & 1 else value >> 1


class LineTable:
    """One code object's table, decoded."""

    def __init__(self, table: bytes, first_line: int) -> None:
        """`table` is co_linetable, `first_line` co_firstlineno; an empty table knows no line."""
        self._starts: list[int] = []
        self._lines: list[int | None] = []
        at, line = 0, first_line
        last: int | None = -1
        for entry in _ENTRY.findall(table):
            head = entry[0]
            form = head >> 3 & 15
            if form >= _ONE_LINE:
                if form < _NO_COLUMN:
                    line += form - _ONE_LINE
                elif form != _NONE:
                    line += _signed(entry)
            here = None if form == _NONE else line
            if here != last:
                self._starts.append(at)
                self._lines.append(here)
                last = here
            at += (head & 7) + 1
        self._end = at

    def line(self, offset: int) -> int | None:
        """The line of the instruction at `offset` (code units); None where there is none."""
        if not 0 <= offset < self._end:
            return None
        return self._lines[bisect_right(self._starts, offset) - 1]
