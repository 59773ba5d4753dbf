"""One process that is followed: its calls as a tree, and what of it ran in the last seconds.

The tree is that of the stacks, function by function, without plumbing; with the counted calls of
all threads where they are asked for by path.  It is made anew where a path or a name came; figures
are added up along it by passes in C (_columns), so that a reading takes a few milliseconds.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Buffer, Iterator
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
    shift,
    take,
)
from pyhybrid.assemble.own_work import own_rows
from pyhybrid.base.structs import Struct, made
from pyhybrid.live.counts import Counts
from pyhybrid.live.follower import Follower
from pyhybrid.live.functions import (
    ALL,
    IS_KERNEL,
    IS_NATIVE,
    LIBRARIES,
    Function,
    Functions,
    Words,
)
from pyhybrid.live.steps import MOST_CALLS, LastSteps
from pyhybrid.options.table import SAMPLING
from pyhybrid.spool.content import Ticks
from pyhybrid.tables import WatchedCall
from pyhybrid.views.call_tree.folded_tree import INSIDE

HELD, _WAITED = 1, 2  # of the GIL
_OUTSIDE = bytes([1, 0, *bytes(254)])  # of a node that is not below: it is left out
_KEPT = bytes([1, 0, 0, 0, 1, *bytes(251)])  # of what Functions.folded returns


class Tree(Struct):
    """Hold the tree: by row of the stacks, and of each exact thread if it has these, the node; by
    node its parent and function, and whether it is the outermost of a recursion."""

    of_stack: memoryview
    of_exact: dict[int, memoryview]
    parent: memoryview
    function: memoryview
    is_outermost: memoryview
    kind: memoryview  # by row of the stacks: what runs there, IS_NATIVE, IS_KERNEL
    ours: set[int]  # rows of the stacks


class Moment(NamedTuple):
    """A moment is a reading: when it was, what came since the one before, and the counters."""

    time_ns: int  # of the process's round
    weights: dict[int, Counter[int]]  # periods, by thread and place
    samples: int
    calls: array[int]  # by function, as what follows
    ticks: array[int]
    times: tuple[array[int], array[int]] | None  # own and total ticks, where nothing is sampled
    cpu_ns: int
    lost: int


_BEGIN = Moment(0, {}, 0, array("q"), array("q"), None, 0, 0)


class Weights(Struct):
    """Hold periods by node, in columns of int64, of what ran; `waiting` of what was off the CPU;
    `later`: of the later half of the window."""

    own: array[int]
    held: array[int]
    native: array[int]
    kernel: array[int]
    later: array[int]
    all: int = 0
    all_held: int = 0
    all_later: int = 0
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
    calls_per_s: dict[int, float]
    callers: Counter[int]


class _Since(Struct):
    """Hold periods since the begin, or a reset, by row of the stacks: of what ran, and what waited;
    and the same by thread and place."""

    ran: array[int] = made(lambda: array("q"))
    waited: array[int] = made(lambda: array("q"))
    places: dict[int, Counter[int]] = made(dict)

    def add(self, taken: dict[int, Counter[int]], n_rows: int) -> None:
        """Add samples."""
        for column in (self.ran, self.waited):
            column.frombytes(bytes(8 * max(0, n_rows - len(column))))
        for thread, weights in taken.items():
            self.places.setdefault(thread, Counter()).update(weights)
            for place, weight in weights.items():
                row = place & STACK_MASK
                if row < n_rows:
                    (self.waited if place & WAITS else self.ran)[row] += weight


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
        self._counts = Counts()
        self._tree: Tree | None = None
        self._made_of: tuple[object, ...] = ()
        self.native = LIBRARIES  # which native functions the tree has
        self.moments: deque[Moment] = deque()  # of the window
        self.now = self.before = _BEGIN  # the last one; that before the window
        self.base = _BEGIN  # that of the begin, or of the last reset
        self._since = _Since()
        self._watched: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MOST_CALLS)
        self._steps = LastSteps()
        self._of_paths: deque[tuple[int, dict[int, array[int]]]] = deque()  # calls, at some times

    def close(self) -> None:
        """Close the spool."""
        self.follower.close()

    @property
    def notes(self) -> list[str]:
        """Return what could not be read of libraries."""
        return self._words.notes

    @property
    def is_sampled(self) -> bool:
        """Does it have samples?  Else times are those of calls."""
        return self.spool.meta.get("mode") in SAMPLING

    @property
    def last_ticks(self) -> int:
        """Return up to when calls that run did so."""
        return self.spool.clocks[-1][0] if self.spool.clocks else 0

    def read(self) -> None:
        """Take what is new.  Raises PyhybridError."""
        taken = self.follower.read()
        spool = self.spool
        self._take_rows()
        for thread, watched in taken.watched.items():
            self._watched.extend((thread, call) for call in watched[-MOST_CALLS:])
        functions = self._exact_functions
        self._counts.take(taken.counted, functions, len(self._functions.rows))
        calls, ticks = self._counts.now(self.last_ticks, functions)
        times = None if self.is_sampled or not self.follower.is_begun else self._times()
        cpu_ns = sum(each.cpu_ns for each in spool.counters.values())
        lost = sum(sum(each.lost_weight) for each in spool.counters.values())
        clock = spool.clocks[-1][1] if spool.clocks else time.monotonic_ns()
        self._since.add(taken.weights, len(self._stack_functions))
        self._add(Moment(clock, taken.weights, taken.samples, calls, ticks, times, cpu_ns, lost))

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

    def reset(self) -> None:
        """Count what is shown of the whole run from now on."""
        self._since = _Since()
        self.base = self.now

    @property
    def steps(self) -> LastSteps:
        """Return the last steps of a training, or of inference."""
        self._steps.add(self._watched_calls())
        self._watched.clear()
        return self._steps

    def _watched_calls(self) -> Iterator[tuple[Function, WatchedCall]]:
        ticks, rows = Ticks(self.spool), self._functions.rows
        for thread, (since, until, cpu_since, cpu_until, node, *how) in self._watched:
            known = self._exact_functions[thread]
            if 0 < node < len(known):
                times = ticks.time(since), ticks.time(until), cpu_since, cpu_until
                yield rows[known[node]], WatchedCall(thread, node, *times, *how)

    # --- the tree ---------------------------------------------------------------------------------

    def _take_rows(self) -> None:
        spool, words = self.spool, self._words
        known = len(self._stack_functions)
        self._stack_functions += words.of_stacks(spool.words[known:])
        for row in range(known, len(spool.words)):
            parent = spool.parents[row]
            is_python = NATIVE_LIMIT <= spool.words[row] < PSEUDO_LIMIT
            if is_python and words.is_phantom(spool.words[parent]):
                self._stack_functions[parent] = 1
        for thread, of_thread in spool.exact_words.items():
            found = self._exact_functions.setdefault(thread, array("I", [0]))
            found += words.of_exact(of_thread[len(found) :])
        words.name()

    @property
    def tree(self) -> Tree:
        """Return that of the stacks, made anew if it must be."""
        made_of = self.native, self._functions.n_changes, len(self._stack_functions)
        if self._tree is None or made_of != self._made_of:
            self._tree, self._made_of = self._planted(), made_of
        return self._tree

    def _planted(self, *, with_exact: bool = False) -> Tree:
        spool, functions = self.spool, self._functions
        parents, numbers = array("I"), array("I")
        slices: dict[int, slice] = {}
        trees = [(0, spool.parents, self._stack_functions)]
        if with_exact:
            trees += [(t, spool.exact_parents[t], f) for t, f in self._exact_functions.items()]
        for thread, of_tree, labels in trees:
            begin = len(numbers)
            parents.frombytes(shift(of_tree, begin).cast("B"))
            parents[begin] = 0
            numbers += labels
            slices[thread] = slice(begin, len(numbers))
        shown = take(functions.same, numbers)
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
            own_rows(spool.parents, take(functions.own, shown[stacks])),
        )

    def _kinds(self, shown: memoryview) -> memoryview:
        """Return of the stacks' rows of what kind what runs there is: plumbing is its caller's."""
        kept = self._functions.folded(ALL).translate(_KEPT)
        rows = nearest(self.spool.parents, take(kept, shown))
        return take(take(self._functions.kinds, shown), rows)

    # --- figures ----------------------------------------------------------------------------------

    def recent(self, threads: set[int] | None, idle: bool, tree: Tree | None = None) -> Weights:
        """Add up the window's samples by node, of these threads, or all; with what waits where
        `idle`."""
        tree = tree or self.tree
        n = 8 * len(tree.parent)
        own, held, native, kernel, later = (array("q", bytes(n)) for _ in range(5))
        result = Weights(own, held, native, kernel, later)
        of_stack, kind, ours = tree.of_stack, tree.kind, tree.ours
        middle_ns = (self.now.time_ns + self.before.time_ns) // 2
        for moment in self.moments:
            is_later = moment.time_ns > middle_ns
            for thread, weights in moment.weights.items():
                if threads is not None and thread not in threads:
                    continue
                for place, weight in weights.items():
                    row, state = place & STACK_MASK, place >> GIL_SHIFT & 3
                    if state == HELD:
                        result.all_held += weight
                    if row in ours:
                        result.ours += weight
                        continue
                    if row >= len(of_stack):
                        continue
                    if place & WAITS:
                        result.waiting += weight
                        if not idle:
                            continue
                    node = of_stack[row]
                    own[node] += weight
                    result.all += weight
                    if is_later:
                        later[node] += weight
                        result.all_later += weight
                    if kind[row] == IS_NATIVE:
                        native[node] += weight
                    elif kind[row] == IS_KERNEL:
                        kernel[node] += weight
                    if state == HELD:
                        held[node] += weight
                    elif state == _WAITED:
                        result.waited += weight
        return result

    def since(self, threads: set[int] | None, idle: bool) -> Buffer:
        """Add up by node all samples since the begin, or the last reset."""
        tree, known = self.tree, self._since
        if threads is not None:
            known = _Since()
            chosen = {t: p for t, p in self._since.places.items() if t in threads}
            known.add(chosen, len(tree.of_stack))
        n = len(tree.parent)
        outside = bytearray(b"\1" * len(tree.of_stack))
        for row in tree.ours:
            outside[row] = 0
        rows = tree.of_stack[: len(known.ran)]
        ran = add_up(rows, known.ran, n, outside[: len(rows)])
        return plus(ran, add_up(rows, known.waited, n, outside[: len(rows)])) if idle else ran

    def sums(self, value: Buffer, n: int) -> tuple[memoryview, memoryview]:
        """Return by function what a column of nodes adds up to: own, and with what is below."""
        tree = self.tree
        total = inclusive(tree.parent, value)
        return add_up(tree.function, value, n), add_up(tree.function, total, n, tree.is_outermost)

    def shown(self, column: array[int], n: int) -> memoryview:
        """Return a moment's column by the functions that others are shown as."""
        return add_up(self._functions.same[: len(column)], column, n)

    def _times(self) -> tuple[array[int], array[int]]:
        """Return by function the ticks of calls without what they called, and with it."""
        tree, n = self._planted(with_exact=True), len(self._functions.rows)
        own, total = (memoryview(array("q", bytes(8 * n))) for _ in range(2))
        for thread, counts in self._counts.threads.items():
            ticks = counts.ticks_until(self.last_ticks)
            rows = slice(len(ticks))
            functions = self._exact_functions[thread][rows]
            above = take(functions, self.spool.exact_parents[thread][rows])
            called = array("q", map(int.__neg__, add_up(above, ticks, n)))
            is_outer = take(tree.is_outermost, tree.of_exact[thread][rows])
            own = plus(plus(own, add_up(functions, ticks, n)), called)
            total = plus(total, add_up(functions, ticks, n, is_outer))
        return array("q", own), array("q", total)

    def below(self, number: int, threads: set[int] | None, idle: bool) -> Below:
        """Return what a function called, and what called it, by the samples of the window."""
        tree = self._planted(with_exact=True)
        recent = self.recent(threads, idle, tree)
        marked = bytearray(len(self._functions.rows))
        marked[number] = 1
        at = bytes(take(marked, tree.function))
        inside = descend(tree.parent, at, INSIDE)
        how = inside.tobytes().translate(_OUTSIDE)
        of_node, parent, function = paths(tree.parent, tree.function, how)
        n = len(parent)
        own = add_up(of_node, recent.own, n)
        total = inclusive(tree.parent, recent.own)
        callers = Counter[int]()
        for node, is_it in enumerate(at):
            if is_it and tree.is_outermost[node] and total[node]:
                callers[tree.function[tree.parent[node]]] += total[node]
        rates = self._calls_below(tree, of_node, n)
        own_below = array("q", own)
        own_below[0] = 0
        return Below(parent, function, own, inclusive(parent, own_below), rates, callers)

    def _calls_below(self, tree: Tree, of_node: memoryview, n: int) -> dict[int, float]:
        """Return the calls a second of those nodes that have some, since a window ago, if they were
        looked at then."""
        now_ns, known = self.now.time_ns, self._of_paths
        known.append((now_ns, {t: c.calls[:] for t, c in self._counts.threads.items()}))
        while known[0][0] < now_ns - 2 * self._window_ns or (
            len(known) > 2 and known[1][0] <= now_ns - self._window_ns
        ):
            known.popleft()
        begin_ns, before = known[0]
        seconds = (now_ns - begin_ns) / 1e9
        if not seconds:
            return {}
        kept = self._functions.folded(self.native).translate(_KEPT)
        calls = array("q", bytes(8 * n))
        for thread, of_thread in known[-1][1].items():
            functions = take(self._functions.same, self._exact_functions[thread])
            where, nodes = take(kept, functions), take(of_node, tree.of_exact[thread])
            for column, sign in ((of_thread, 1), (before.get(thread, array("q")), -1)):
                rows = slice(len(column))
                for node, value in enumerate(add_up(nodes[rows], column, n, where[rows])):
                    calls[node] += sign * value
        return {node: value / seconds for node, value in enumerate(calls) if value}

    def name_of_thread(self, thread: int) -> str:
        """Return it."""
        known = self.spool.threads.get(thread)
        return known.name if known else "?"


def plus(a: Buffer, b: Buffer) -> memoryview:
    """Add two columns of int64 of one length."""
    both = bytes(memoryview(a).cast("B")) + bytes(memoryview(b).cast("B"))
    n = len(both) // 16
    return add_up(array("I", range(n)) * 2, memoryview(both).cast("q"), n)
