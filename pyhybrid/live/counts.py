"""Exact counts of one process, added up by function as they come: only what changed is looked at.

The spool has them by node, in blocks of which those that changed are written anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from pyhybrid._columns import add_up, rows_from
from pyhybrid.base.structs import Struct, made
from pyhybrid.spool import EXACT_COUNT

_FIELDS = EXACT_COUNT.size // 8  # of a count, as int64: raised and seeded, and these
_CALLS, _TICKS, _SINCE = 1, 3, 4


class ThreadCounts(Struct):
    """Hold the counts of a thread's nodes; `running`: by block which nodes run, and since when."""

    calls: array[int] = made(lambda: array("q", [0]))
    ticks: array[int] = made(lambda: array("q", [0]))
    running: dict[int, list[tuple[int, int]]] = made(dict)

    def ticks_until(self, last: int) -> array[int]:
        """Return the ticks by node, with those of what has run until `last`."""
        ticks = self.ticks[:]
        for block in self.running.values():
            for node, since in block:
                ticks[node] += max(0, last - since)
        return ticks


class Counts:
    """Hold the calls and ticks by function: those numbers that `take` gets for nodes."""

    def __init__(self) -> None:
        self.threads: dict[int, ThreadCounts] = {}
        self._calls, self._ticks = array("q"), array("q")
        self._early: list[tuple[int, int, memoryview]] = []

    def take(
        self,
        counted: Iterable[tuple[int, int, memoryview]],
        functions: dict[int, array[int]],
        n_functions: int,
    ) -> None:
        """Take blocks: a thread, its first node, and counts; `functions` are those of all nodes.

        Of nodes that are not known yet the block is kept until they are."""
        for sums in (self._calls, self._ticks):
            sums.frombytes(bytes(8 * (n_functions - len(sums))))
        touched, before, after = array("I"), (array("q"), array("q")), (array("q"), array("q"))
        blocks, self._early = [*self._early, *counted], []
        for thread, first, block in blocks:
            of_nodes = functions.get(thread, array("I"))
            rows, end = block.cast("q"), first + len(block) // EXACT_COUNT.size
            if end > len(of_nodes):
                self._early.append((thread, first, block))
                continue
            known = self.threads.setdefault(thread, ThreadCounts())
            touched += of_nodes[first:end]
            for at, column in ((_CALLS, known.calls), (_TICKS, known.ticks)):
                column.frombytes(bytes(8 * max(0, end - len(column))))
                new = array("q", rows[at::_FIELDS].tobytes())
                before[at == _TICKS].extend(column[first:end])
                after[at == _TICKS].extend(new)
                column[first:end] = new
            since = memoryview(rows[_SINCE::_FIELDS].tobytes()).cast("q")
            known.running[first] = [(first + row, since[row]) for row in rows_from(since, 1)]
        if touched:
            which = set(touched)
            for sums, old, new in zip((self._calls, self._ticks), before, after, strict=True):
                more, less = add_up(touched, new, n_functions), add_up(touched, old, n_functions)
                for number in which:
                    sums[number] += more[number] - less[number]

    def now(self, last: int, functions: dict[int, array[int]]) -> tuple[array[int], array[int]]:
        """Return calls and ticks by function, with those of what has run until `last`."""
        calls, ticks = self._calls[:], self._ticks[:]
        for thread, known in self.threads.items():
            of_nodes = functions[thread]
            for block in known.running.values():
                for node, since in block:
                    ticks[of_nodes[node]] += max(0, last - since)
        return calls, ticks
