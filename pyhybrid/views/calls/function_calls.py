"""Exact figures by function: calls, times and callers, all threads together.

Views over the table `exact` (tables/), whose rows are paths.  A function's total counts its
outermost activations only, so that recursion does not inflate it; its callers are the nearest
Python functions above, whatever C lies between, or C functions whose calls were counted
(--c-calls).
"""

from __future__ import annotations

from array import array
from collections.abc import Buffer, Iterator
from operator import add

from pyhybrid._columns import add_up, nearest, outermost, pairs, take
from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Exact
from pyhybrid.tables.exact_table import ExactTable, calling_nodes
from pyhybrid.tables.profile import Profile, made_once

ROOT = 0  # stands for "no Python caller" where a frame id is expected


class Tally(Struct):
    """Sum up activations.  `turns` are calls and resumes; `outer_turns` those of them that were no
    recursion, and `total_ns` is theirs.  In a caller's tally that is recursion through it;
    `entered_ns` leaves out all recursion: the callers' sum is the function's `total_ns`."""

    calls: int = 0
    turns: int = 0
    outer_turns: int = 0
    raised: int = 0
    seeded: int = 0
    self_ns: int = 0
    total_ns: int = 0
    entered_ns: int = 0


class FunctionCalls(Tally):
    """Hold a function: its own sums, and the same by caller (frame ids)."""

    callers: dict[int, Tally] = made(dict)


def function_calls(
    profile: Profile,
    min_time_ns: int = 0,
    with_callers: bool = True,
    exact: ExactTable | None = None,
) -> dict[int, FunctionCalls]:
    """Return what events counted of every function, by frame id.

    Functions with a total below `min_time_ns` are part of their callers: their self time is
    theirs, and what they call is called by them.  So sums stay as they are; functions that no other
    one of the program called on some thread stay, too.

    `exact`: other rows than the profile's.
    """
    exact = profile.exact if exact is None else exact
    functions = _sums(profile, exact, set(), with_callers)
    if not min_time_ns:
        return functions
    rows = {(row.thread, row.node): row for row in exact}
    above = {key: _row_above(profile, rows, *key) for key in rows}
    frame_of = profile.nodes.frame
    outermost = {frame_of[node] for (_, node), key in above.items() if key is None}
    small = {frame for frame, f in functions.items() if f.total_ns < min_time_ns} - outermost
    for key in sorted(rows, key=lambda key: -key[1]):  # children before their parents
        to = above[key]
        if frame_of[key[1]] in small and to:
            self_ns = rows.pop(key).self_ns
            rows[to] = rows[to]._replace(self_ns=rows[to].self_ns + self_ns)
    hidden = {node for node, frame in enumerate(frame_of) if frame in small}
    return _sums(profile, ExactTable.of(rows.values()), hidden, with_callers)


@made_once
def own_calls(profile: Profile) -> dict[int, FunctionCalls]:
    """Return the same without callers, made once for a profile: not to be changed."""
    return function_calls(profile, with_callers=False)


def _row_above(
    profile: Profile, rows: dict[tuple[int, int], Exact], thread: int, node: int
) -> tuple[int, int] | None:
    """Return the key of the nearest path above that has figures on this thread."""
    parent = profile.nodes.parent
    while node := parent[node]:
        if (thread, node) in rows:
            return thread, node
    return None


def _sums(
    profile: Profile, exact: ExactTable, hidden: set[int], with_callers: bool
) -> dict[int, FunctionCalls]:
    """Sum up by function; the frames of hidden nodes call nothing, and are called by nothing."""
    if not exact:
        return {}
    parent, frame, node = profile.nodes.parent, profile.nodes.frame, exact.node
    calls = _calling(profile, node, hidden)
    caller = take(frame, take(nearest(parent, calls), parent))
    pair, first = pairs(frame, caller)
    is_outer = take(outermost(parent, frame, calls), node)
    rows = _Rows(exact, is_outer)
    functions = dict(rows.tallies(FunctionCalls, take(frame, node), is_outer))
    if with_callers:
        is_outer_here = take(outermost(parent, pair, calls), node)
        for number, tally in rows.tallies(Tally, take(pair, node), is_outer_here):
            at = first[number]
            functions[frame[at]].callers[caller[at]] = tally
    return functions


def _calling(profile: Profile, counted: array[int], hidden: set[int]) -> bytearray:
    """Mark them as calling_nodes() does, but for `hidden` ones."""
    marked = calling_nodes(profile.nodes, profile.frames, counted)
    for node in hidden:
        marked[node] = 0
    return marked


class _Rows:
    """Hold the figures of the table `exact` in columns, to be added up by groups of its rows."""

    def __init__(self, exact: ExactTable, is_outer: Buffer) -> None:
        """Take them; `is_outer`: 1 for rows that are no recursion."""
        self._exact, self._is_outer = exact, is_outer

    def tallies[T: Tally](
        self, kind: type[T], group: memoryview, is_outer: Buffer
    ) -> Iterator[tuple[int, T]]:
        """Yield each group of rows with its sums, as a `kind` of tally, in order of their first
        rows; `is_outer`: 1 for rows that are no recursion within the group."""
        numbers = take(group, pairs(group, group)[1])  # parents before what they call
        exact, n = self._exact, max(numbers) + 1
        calls, resumes = add_up(group, exact.calls, n), add_up(group, exact.resumes, n)
        outer = (add_up(group, each, n, is_outer) for each in (exact.calls, exact.resumes))
        of_group = (
            calls,
            array("q", map(add, calls, resumes)),
            array("q", map(add, *outer)),
            add_up(group, exact.raised, n),
            add_up(group, exact.seeded, n),
            add_up(group, exact.self_ns, n),
            add_up(group, exact.total_ns, n, is_outer),
            add_up(group, exact.total_ns, n, self._is_outer),
        )
        sums = list(zip(*of_group, strict=True))
        for number in numbers:
            yield number, kind(*sums[number])


def calls_by_thread(profile: Profile) -> dict[tuple[int, int], Tally]:
    """Return what events counted of every function on each thread, by thread and frame id.

    Sums over threads are those of `function_calls`.
    """
    exact = profile.exact
    if not exact:
        return {}
    parent, frame, node = profile.nodes.parent, profile.nodes.frame, exact.node
    is_outer = take(outermost(parent, frame, _calling(profile, node, set())), node)
    of_row = take(frame, node)
    group, first = pairs(exact.thread, of_row)
    tallies = _Rows(exact, is_outer).tallies(Tally, group, is_outer)
    return {(exact.thread[first[n]], of_row[first[n]]): tally for n, tally in tallies}


def traced_calls(profile: Profile, min_time_ns: int = 0) -> dict[int, FunctionCalls]:
    """Return the same; raises PyhybridError where nothing was traced."""
    functions = function_calls(profile, min_time_ns)
    if not functions:
        why = (
            "exact figures are not kept by time"
            if profile.view.by_time
            else "--mode trace or hybrid"
        )
        raise PyhybridError(f"{profile.path}: no calls were traced ({why})")
    return functions
