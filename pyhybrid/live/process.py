"""One process that is followed: its calls as a tree, and what of it ran in the last seconds.

All trees of the spool (the stacks' and those of each thread that calls were counted of) are one
here, function by function, without plumbing.  It is made anew where a path or a name came; figures
are added up along it by passes in C (_columns), so that a reading takes a few milliseconds.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Buffer, Iterable, Iterator
from typing import NamedTuple

from pyhybrid._columns import (
    GIL_SHIFT,
    NATIVE_LIMIT,
    PSEUDO_LIMIT,
    STACK_MASK,
    WAITS,
    add_up,
    descend,
    inclusive,
    nearest,
    outermost,
    paths,
    rows_from,
    shift,
    take,
)
from pyhybrid.assemble.own_work import own_rows
from pyhybrid.base.structs import Struct
from pyhybrid.live.follower import Follower, counts_column
from pyhybrid.live.functions import (
    ALL,
    IN_THE_KERNEL,
    LIBRARIES,
    NATIVE,
    Function,
    Functions,
    Words,
)
from pyhybrid.live.steps import LastSteps
from pyhybrid.spool.content import Ticks
from pyhybrid.tables import WatchedCall
from pyhybrid.views.call_tree.folded_tree import INSIDE

CALLS, TICKS, SINCE = 1, 3, 4  # fields of the counts
HELD, _WAITED = 1, 2  # of the GIL
_NATIVE, _KERNEL = 1, 2
_OUTSIDE = bytes([1, 0, *bytes(254)])  # of a node that is not below: it is left out
_KEPT = bytes([1, 0, 0, 0, 1, *bytes(251)])  # of what Functions.folded returns
_KINDS = {NATIVE: _NATIVE, IN_THE_KERNEL: _KERNEL}


class Tree(Struct):
    """Hold the tree: by row of the stacks and of each exact thread the node, by node its parent and
    function, and whether it is the outermost of a recursion."""

    of_stack: memoryview
    of_exact: dict[int, memoryview]
    parent: memoryview
    function: memoryview
    is_outermost: memoryview
    kind: memoryview  # by row of the stacks: what runs there, _NATIVE, _KERNEL
    ours: set[int]  # rows of the stacks


class Moment(NamedTuple):
    """A moment is a reading: when it was, what came since the one before, and the counters."""

    time_ns: int  # of the process's round
    weights: dict[int, Counter[int]]  # periods, by thread and place
    samples: int
    counts: dict[int, tuple[memoryview, memoryview]]  # calls and ticks, by the exact half's thread
    cpu_ns: int
    lost: int


class Weights(Struct):
    """Hold periods by node, in columns of int64, of what ran; `waiting` of what was off the CPU."""

    own: array[int]
    held: array[int]
    native: array[int]
    kernel: array[int]
    all: int = 0
    all_held: int = 0
    waited: int = 0
    waiting: int = 0
    ours: int = 0


class Below(Struct):
    """Hold the tree below a function, merged of all paths to it: node 1 is it; `callers` are what
    called it, and 0 where nothing did, with periods."""

    parent: memoryview
    function: memoryview
    own: memoryview
    total: memoryview
    calls: memoryview
    calls_before: memoryview
    callers: Counter[int]


class Process:
    """Follow one spool."""

    def __init__(self, path: str, functions: Functions, window_s: float) -> None:
        """Open it.  Raises PyhybridError."""
        self.follower = Follower(path)
        self.spool = self.follower.spool
        self._functions = functions
        self._window_ns = int(window_s * 1e9)
        self._words = Words(self.spool, functions)
        self._stack_functions = array("I", [0])
        self._exact_functions: dict[int, array[int]] = {}
        self._tree: Tree | None = None
        self._made_of: tuple[object, ...] = ()
        self.native = LIBRARIES  # which native functions the tree has
        self.moments: deque[Moment] = deque()  # of the window
        self.now = self.before = Moment(0, {}, 0, {}, 0, 0)  # the last one; that before the window
        self._since: dict[int, Counter[int]] = {}
        self.base = self.before  # that of the begin, or of the last reset
        self.steps = LastSteps()

    def close(self) -> None:
        """Close the spool."""
        self.follower.close()

    @property
    def notes(self) -> list[str]:
        """Return what could not be read of libraries."""
        return self._words.notes

    def read(self) -> None:
        """Take what is new.  Raises PyhybridError."""
        taken = self.follower.read()
        spool = self.spool
        self._take_rows()
        for thread, calls in taken.watched.items():
            self.steps.add(self._watched(thread, calls))
        counts = self._counts()
        cpu_ns = sum(each.cpu_ns for each in spool.counters.values())
        lost = sum(sum(each.lost_weight) for each in spool.counters.values())
        clock = spool.clocks[-1][1] if spool.clocks else time.monotonic_ns()
        moment = Moment(clock, taken.weights, taken.samples, counts, cpu_ns, lost)
        for thread, weights in taken.weights.items():
            self._since.setdefault(thread, Counter()).update(weights)
        self._add(moment)

    def _add(self, moment: Moment) -> None:
        """Make it the last one of the window; what came before that is no part of it."""
        if not self.before.time_ns and self.follower.is_begun:
            started = int(self.spool.meta.get("start_ns", 0))
            self.before = self.base = self.before._replace(time_ns=started)
            if started < moment.time_ns - self._window_ns:  # it has run for long
                self.now = self.before = moment
                return
        self.now = moment
        self.moments.append(moment)
        while len(self.moments) > 1 and self.moments[0].time_ns <= moment.time_ns - self._window_ns:
            self.before = self.moments.popleft()

    def _watched(
        self, thread: int, calls: list[tuple[int, ...]]
    ) -> Iterator[tuple[Function, WatchedCall]]:
        ticks, rows = Ticks(self.spool), self._functions.rows
        known = self._exact_functions.get(thread, array("I"))
        for since, until, cpu_since, cpu_until, node, *how in calls:
            if 0 < node < len(known):
                times = ticks.time(since), ticks.time(until), cpu_since, cpu_until
                yield rows[known[node]], WatchedCall(thread, node, *times, *how)

    def _counts(self) -> dict[int, tuple[memoryview, memoryview]]:
        spool, counts = self.spool, dict[int, tuple[memoryview, memoryview]]()
        before = self.now.counts
        for thread, words in spool.exact_words.items():
            n, rows = len(words), spool.exact_counts.setdefault(thread, bytearray())
            since = counts_column(rows, SINCE, n)
            running = rows_from(since, 1)
            of_before = before.get(thread, (b"", b""))
            is_new = thread in self.follower.changed or len(of_before[0]) != n or len(running)
            counts[thread] = (
                (counts_column(rows, CALLS, n), self._ticks(rows, n, since, running))
                if is_new
                else before[thread]
            )
        return counts

    def _ticks(self, rows: bytearray, n: int, since: memoryview, running: memoryview) -> memoryview:
        """Return how long each node ran, with what runs."""
        ticks = array("q", counts_column(rows, TICKS, n).tobytes())
        last = self.spool.clocks[-1][0] if self.spool.clocks else 0
        for row in running:
            ticks[row] += max(0, last - since[row])
        return memoryview(ticks)

    def reset(self) -> None:
        """Count what is shown of the whole run from now on."""
        self._since.clear()
        self.base = self.now

    # --- the tree ---------------------------------------------------------------------------------

    def _take_rows(self) -> None:
        spool, words = self.spool, self._words
        known = len(self._stack_functions)
        self._stack_functions += words.of_stacks(spool.words[known:])
        for row in range(known, len(spool.words)):
            parent = spool.parents[row]
            if NATIVE_LIMIT <= spool.words[row] < PSEUDO_LIMIT and words.is_phantom(
                spool.words[parent]
            ):
                self._stack_functions[parent] = 1
        for thread, of_thread in spool.exact_words.items():
            found = self._exact_functions.setdefault(thread, array("I", [0]))
            found += words.of_exact(of_thread[len(found) :])
        words.name()

    @property
    def tree(self) -> Tree:
        """Return it, made anew if it must be."""
        of_exact = self._exact_functions
        made_of = (
            self.native,
            self._functions.n_changes,
            len(self._stack_functions),
            *map(len, of_exact.values()),
        )
        if self._tree is None or made_of != self._made_of:
            self._tree, self._made_of = self._planted(), made_of
        return self._tree

    def _planted(self) -> Tree:
        spool, functions = self.spool, self._functions
        same = functions.same
        parents, numbers = array("I"), array("I")
        slices: dict[int, slice] = {}
        trees = [(0, spool.parents, self._stack_functions)]
        trees += [(t, spool.exact_parents[t], f) for t, f in self._exact_functions.items()]
        for thread, of_tree, labels in trees:
            begin = len(numbers)
            parents.frombytes(shift(of_tree, begin).cast("B"))
            parents[begin] = 0
            numbers += labels
            slices[thread] = slice(begin, len(numbers))
        shown = take(same, numbers)
        how = bytearray(take(functions.folded(self.native), shown))
        for each in slices.values():
            how[each.start] = 1
        of_row, parent, function = paths(parents, shown, how)
        stacks = slices.pop(0)
        return Tree(
            of_row[stacks],
            {thread: of_row[rows] for thread, rows in slices.items()},
            parent,
            function,
            outermost(parent, function, b"\1" * len(parent)),
            self._kinds(shown[stacks]),
            own_rows(spool.parents, take(functions.own(), shown[stacks])),
        )

    def _kinds(self, shown: memoryview) -> memoryview:
        """Return of the stacks' rows of what kind what runs there is: plumbing is its caller's."""
        functions = self._functions
        kept = functions.folded(ALL).translate(_KEPT)
        kinds = bytes(_KINDS.get(each.kind, 0) for each in functions.rows)
        rows = nearest(self.spool.parents, take(kept, shown))
        return take(take(kinds, shown), rows)

    # --- figures ----------------------------------------------------------------------------------

    def weights(
        self, parts: Iterable[dict[int, Counter[int]]], threads: set[int] | None, idle: bool
    ) -> Weights:
        """Add up samples by node, of these threads, or all; with what waits where `idle`."""
        tree = self.tree
        n = 8 * len(tree.parent)
        zeros = [array("q", bytes(n)) for _ in range(4)]
        result = Weights(zeros[0], zeros[1], zeros[2], zeros[3])
        by_kind = {_NATIVE: result.native, _KERNEL: result.kernel}
        own, held, of_stack, kind, ours = (
            result.own,
            result.held,
            tree.of_stack,
            tree.kind,
            tree.ours,
        )
        for part in parts:
            for thread, of_thread in part.items():
                if threads is not None and thread not in threads:
                    continue
                for place, weight in of_thread.items():
                    row, state = place & STACK_MASK, place >> GIL_SHIFT & 3
                    if state == HELD:
                        result.all_held += weight
                    if row in ours or row >= len(of_stack):
                        result.ours += weight
                        continue
                    if place & WAITS:
                        result.waiting += weight
                        if not idle:
                            continue
                    node = of_stack[row]
                    own[node] += weight
                    result.all += weight
                    if kind[row]:
                        by_kind[kind[row]][node] += weight
                    if state == HELD:
                        held[node] += weight
                    elif state == _WAITED:
                        result.waited += weight
        return result

    def recent(self, threads: set[int] | None, idle: bool, since_ns: int = 0) -> Weights:
        """Return those of the window, or of its part from a time on."""
        parts = (each.weights for each in self.moments if each.time_ns > since_ns)
        return self.weights(parts, threads, idle)

    def since(self, threads: set[int] | None, idle: bool) -> Weights:
        """Return those since the begin, or the last reset."""
        return self.weights([self._since], threads, idle)

    def sums(self, value: Buffer, n: int) -> tuple[memoryview, memoryview]:
        """Return by function what a column of nodes adds up to: own, and with what is below."""
        tree = self.tree
        total = inclusive(tree.parent, value)
        return add_up(tree.function, value, n), add_up(tree.function, total, n, tree.is_outermost)

    def counted(self, moment: Moment, n: int) -> list[memoryview]:
        """Return by function, of a moment, the calls, and the ticks of all, of those that are no
        recursion, and of what they called."""
        sums = [memoryview(array("q", bytes(8 * n))) for _ in range(4)]
        tree, same = self.tree, self._functions.same
        for thread, (calls, ticks) in moment.counts.items():
            rows = slice(len(calls))
            shown = take(same, self._exact_functions[thread][rows])
            above = take(shown, self.spool.exact_parents[thread][rows])
            is_outer = take(tree.is_outermost, tree.of_exact[thread][rows])
            more = (
                add_up(shown, calls, n),
                add_up(shown, ticks, n),
                add_up(shown, ticks, n, is_outer),
                add_up(above, ticks, n),
            )
            sums = list(map(plus, sums, more))
        return sums

    @property
    def ticks(self) -> Ticks:
        """Return what converts its ticks."""
        return Ticks(self.spool)

    def below(self, number: int, recent: Weights) -> Below:
        """Return what a function called, and what called it, by the samples of the window."""
        tree = self.tree
        marked = bytearray(len(self._functions.rows))
        marked[number] = 1
        at = take(marked, tree.function)
        inside = descend(tree.parent, at, INSIDE)
        how = inside.tobytes().translate(_OUTSIDE)
        of_node, parent, function = paths(tree.parent, tree.function, how)
        n = len(parent)
        own = add_up(of_node, recent.own, n)
        total = inclusive(tree.parent, recent.own)
        callers = Counter[int]()
        for node in rows_from(at, 1):
            if tree.is_outermost[node] and total[node]:
                callers[tree.function[tree.parent[node]]] += total[node]
        calls, before = (self._calls_below(of_node, n, each) for each in (self.now, self.before))
        own_below = array("q", own)
        own_below[0] = 0
        return Below(parent, function, own, inclusive(parent, own_below), calls, before, callers)

    def _calls_below(self, of_node: memoryview, n: int, moment: Moment) -> memoryview:
        tree, same = self.tree, self._functions.same
        kept = self._functions.folded(self.native).translate(_KEPT)
        calls_below = memoryview(array("q", bytes(8 * n)))
        for thread, (calls, _) in moment.counts.items():
            rows = slice(len(calls))
            where = take(kept, take(same, self._exact_functions[thread][rows]))
            nodes = take(of_node, tree.of_exact[thread][rows])
            calls_below = plus(calls_below, add_up(nodes, calls, n, where))
        return calls_below

    def name_of_thread(self, thread: int) -> str:
        """Return it."""
        known = self.spool.threads.get(thread)
        return known.name if known else "?"


def plus(a: Buffer, b: Buffer) -> memoryview:
    """Add two columns of int64 of one length."""
    both = bytes(memoryview(a).cast("B")) + bytes(memoryview(b).cast("B"))
    n = len(both) // 16
    return add_up(array("I", range(n)) * 2, memoryview(both).cast("q"), n)
