"""The table `exact` in columns: a row is made where it is asked for; which of its nodes recur."""

from array import array
from collections.abc import Buffer, Collection, Iterable, Iterator, Sequence
from operator import or_
from typing import overload

from pyhybrid._columns import mark, order, outermost, rows_from, take
from pyhybrid.tables import Exact, Frame, Nodes


def calling_nodes(nodes: Nodes, frames: dict[int, Frame], counted: Buffer) -> bytearray:
    """Mark with 1 each node that calls what is below it: Python functions, regions, and C functions
    whose calls were `counted` (uint32)."""
    callers = {f.id for f in frames.values() if f.kind in ("python", "region")}
    is_caller = bytes(number in callers for number in range(max(frames, default=0) + 1))
    n = len(nodes.frame)
    both = take(is_caller, nodes.frame), mark(counted, n)
    return bytearray(or_(*map(int.from_bytes, both)).to_bytes(n))  # all rows as one number


def recursive_nodes(nodes: Nodes, frames: dict[int, Frame], counted: Buffer) -> memoryview:
    """Return the `counted` nodes (uint32) whose function is on their path already."""
    n = len(nodes.frame)
    is_outer = outermost(nodes.parent, nodes.frame, calling_nodes(nodes, frames, counted))
    inner = int.from_bytes(mark(counted, n)) & ~int.from_bytes(is_outer)
    return rows_from(inner.to_bytes(n), 1)


class ExactTable(Sequence[Exact]):
    """Hold a sequence of Exact, ordered by thread and node; a column of it by a field's name."""

    __slots__ = Exact._fields

    def __init__(self) -> None:
        """Hold no rows."""
        self.thread, self.node = array("I"), array("I")
        self.calls, self.resumes, self.raised, self.seeded = (array("q") for _ in range(4))
        self.total_ns, self.self_ns = array("q"), array("q")

    @classmethod
    def of(cls, rows: Iterable[Exact]) -> "ExactTable":
        """Return the table of these rows."""
        table = cls()
        for column, values in zip(table.columns, zip(*rows, strict=True), strict=False):
            column.extend(values)
        return table

    @classmethod
    def in_order(cls, columns: Sequence["array[int]"]) -> "ExactTable":
        """Return the table of these columns, whose rows come in any order."""
        thread, node, *_ = columns
        rows = order(thread, node)
        table = cls()
        table.add([take(column, rows) for column in columns])
        return table

    @property
    def columns(self) -> tuple["array[int]", ...]:
        """Return all of them, in the order of Exact's fields."""
        return tuple(getattr(self, name) for name in Exact._fields)

    def add(self, columns: list[memoryview]) -> None:
        """Append rows, which follow those that are there; `columns` is empty then."""
        for column in reversed(self.columns):
            column.frombytes(columns.pop().cast("B"))

    def at_nodes(self, nodes: Sequence[int]) -> "ExactTable":
        """Return the same rows, of these nodes in the place of theirs."""
        moved = array("I", map(nodes.__getitem__, self.node))
        return ExactTable.in_order([moved if each is self.node else each for each in self.columns])

    def of_threads(self, threads: Collection[int]) -> "ExactTable":
        """Return the rows of these threads; the table itself where it has no others."""
        chosen = bytes(thread in threads for thread in self.thread)
        return self if all(chosen) else self.where(chosen)

    def where(self, chosen: Buffer) -> "ExactTable":
        """Return a table of the rows that are marked."""
        table, rows = ExactTable(), rows_from(chosen, 1)
        for column, values in zip(table.columns, self.columns, strict=True):
            column.frombytes(take(values, rows).cast("B"))
        return table

    def __len__(self) -> int:
        return len(self.node)

    @overload
    def __getitem__(self, at: int) -> Exact: ...
    @overload
    def __getitem__(self, at: slice) -> list[Exact]: ...
    def __getitem__(self, at: int | slice) -> Exact | list[Exact]:
        if isinstance(at, slice):
            return list(map(Exact, *(column[at] for column in self.columns)))
        return Exact(*(column[at] for column in self.columns))

    def __iter__(self) -> Iterator[Exact]:
        return map(Exact, *self.columns)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ExactTable):
            return self.columns == other.columns
        return isinstance(other, list) and list(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} rows of the table exact>"
