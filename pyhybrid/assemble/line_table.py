"""The location table of a code object (co_linetable): from an instruction to its line."""

from bisect import bisect_right

from pyhybrid._profile import line_runs

_NONE = -1


class LineTable:
    """One code object's table, decoded."""

    def __init__(self, table: bytes, first_line: int) -> None:
        """`table` is co_linetable, `first_line` co_firstlineno; an empty table knows no line."""
        self._starts, self._lines, self._end = line_runs(table, first_line)

    def line(self, offset: int) -> int | None:
        """The line of the instruction at `offset` (code units); None where there is none."""
        if not 0 <= offset < self._end:
            return None
        line = self._lines[bisect_right(self._starts, offset) - 1]
        return None if line == _NONE else line
