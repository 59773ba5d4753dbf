"""Columns of whole numbers in few bytes, which the page's script reads (web/src/columns.ts).

A column's values are little-endian and as wide as the largest needs, one to seven bytes, and all
first bytes come first, then all second ones: so gzip finds more that is alike.
"""

import base64
import gzip
from array import array
from collections.abc import Iterable
from itertools import pairwise


class Columns:
    """Named columns, which become one text."""

    def __init__(self) -> None:
        """None yet."""
        # Of each: where it begins, how many values it has, how many bytes each of them.
        self.index: dict[str, tuple[int, int, int]] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: Iterable[int]) -> None:
        """Add a column of numbers from 0 to 2**53."""
        column = values if isinstance(values, array) else array("Q", values)
        width = max((max(column, default=0).bit_length() + 7) // 8, 1)
        raw = column.tobytes()
        step = column.itemsize
        planes = [raw[byte::step] for byte in range(min(width, step))]
        self._put(name, len(column), len(planes), planes)

    def add_text(self, name: str, texts: Iterable[str]) -> None:
        """Add texts, which may have whatever characters."""
        joined = "\0".join(text.replace("\0", "\ufffd") for text in texts)
        data = joined.encode("utf-8", "backslashreplace")
        self._put(name, len(data), 1, [data])

    def _put(self, name: str, n: int, width: int, parts: list[bytes]) -> None:
        self.index[name] = (self._size, n, width)
        self._parts += parts
        self._size += n * width

    def text(self) -> str:
        """All of them, gzip in base64."""
        return base64.b64encode(gzip.compress(b"".join(self._parts), 6, mtime=0)).decode()


def steps(values: Iterable[int], before: int = 0) -> "array[int]":
    """From each value to the next one, the first from `before`; none is less than the last."""
    return array("Q", (to - since for since, to in pairwise([before, *values])))
