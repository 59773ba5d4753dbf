"""Exact figures by function: calls, times and callers, all threads together.

Views over the table `exact` (schema.sql), whose rows are paths.  A function's total counts its
outermost activations only, so that recursion does not inflate it; its callers are the nearest
Python functions above, whatever C lies between, or C functions whose calls were counted
(--c-calls).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyhybrid.errors import PyhybridError
from pyhybrid.fold import own_nodes
from pyhybrid.profile_file import Profile
from pyhybrid.rows import Exact

ROOT = 0  # stands for "no Python caller" where a frame id is expected


@dataclass(slots=True)
class Tally:
    """Sums over activations.  `turns` are calls and resumes; `outer_turns` those of them that were
    no recursion, and `total_ns` is theirs.  Of a caller's tally that is recursion through it;
    `entered_ns` leaves out all recursion: the callers' sum is the function's `total_ns`.
    """

    calls: int = 0
    turns: int = 0
    outer_turns: int = 0
    raised: int = 0
    seeded: int = 0
    self_ns: int = 0
    total_ns: int = 0
    entered_ns: int = 0


@dataclass(slots=True)
class FunctionCalls(Tally):
    """A function: its own sums, and the same by caller (frame ids)."""

    callers: dict[int, Tally] = field(default_factory=dict)


def function_calls(profile: Profile, min_time_ns: int = 0) -> dict[int, FunctionCalls]:
    """What events counted of every function of the program, by frame id.

    Functions with a total below `min_time_ns` are part of their callers: their self time is
    theirs, and what they call is called by them.  So sums stay as they are; functions that no other
    one of the program called on some thread stay, too.
    """
    hidden = own_nodes(profile)
    rows = {(row.thread, row.node): row for row in profile.exact if row.node not in hidden}
    functions = _sums(profile, rows.values(), hidden)
    if not min_time_ns:
        return functions
    above = {key: _row_above(profile, rows, *key) for key in rows}
    frame_of = profile.nodes.frame
    outermost = {frame_of[node] for (_, node), key in above.items() if key is None}
    small = {frame for frame, f in functions.items() if f.total_ns < min_time_ns} - outermost
    for key in sorted(rows, key=lambda key: -key[1]):  # children before their parents
        to = above[key]
        if frame_of[key[1]] in small and to:
            self_ns = rows.pop(key).self_ns
            rows[to] = rows[to]._replace(self_ns=rows[to].self_ns + self_ns)
    hidden |= {node for node, frame in enumerate(frame_of) if frame in small}
    return _sums(profile, rows.values(), hidden)


def _row_above(
    profile: Profile, rows: dict[tuple[int, int], Exact], thread: int, node: int
) -> tuple[int, int] | None:
    """The key of the nearest path above that has figures on this thread."""
    parent = profile.nodes.parent
    while node := parent[node]:
        if (thread, node) in rows:
            return thread, node
    return None


def _sums(profile: Profile, exact: Iterable[Exact], hidden: set[int]) -> dict[int, FunctionCalls]:
    """By function; the frames of hidden nodes call nothing, and are called by nothing."""
    functions: dict[int, FunctionCalls] = {}
    frame_of = profile.nodes.frame
    rows = defaultdict(list)
    for row in exact:
        rows[row.node].append(row)
    for node, caller, is_outer, is_outer_here in _walk(profile, set(rows), hidden):
        function = functions.setdefault(frame_of[node], FunctionCalls())
        here = function.callers.setdefault(caller, Tally())
        for row in rows[node]:
            for tally, outer in ((function, is_outer), (here, is_outer_here)):
                turns = row.calls + row.resumes
                tally.calls += row.calls
                tally.turns += turns
                tally.raised += row.raised
                tally.seeded += row.seeded
                tally.self_ns += row.self_ns
                if outer:
                    tally.outer_turns += turns
                    tally.total_ns += row.total_ns
                if is_outer:
                    tally.entered_ns += row.total_ns
    return functions


def traced_calls(profile: Profile, min_time_ns: int = 0) -> dict[int, FunctionCalls]:
    """The same; raises PyhybridError where nothing was traced."""
    functions = function_calls(profile, min_time_ns)
    if not functions:
        why = "exact figures are not kept by time" if profile.is_part else "--mode trace or hybrid"
        raise PyhybridError(f"{profile.path}: no calls were traced ({why})")
    return functions


def _walk(
    profile: Profile, recorded: set[int], hidden: set[int]
) -> Iterator[tuple[int, int, bool, bool]]:
    """(node, the calling function, is this its outermost activation on the path, and is it so among
    those by this caller) for every node with figures, parents first."""
    nodes, frames = profile.nodes, profile.frames
    children: defaultdict[int, list[int]] = defaultdict(list)
    placed = {ROOT}
    for node in recorded:
        while node not in placed:
            placed.add(node)
            children[nodes.parent[node]].append(node)
            node = nodes.parent[node]
    active: defaultdict[int, int] = defaultdict(int)
    active_by: defaultdict[tuple[int, int], int] = defaultdict(int)
    todo = [(node, ROOT) for node in children[ROOT]]
    while todo:
        node, caller = todo.pop()
        frame = nodes.frame[~node if node < 0 else node]
        if node < 0:  # all below it is done
            active[frame] -= 1
            active_by[frame, caller] -= 1
            continue
        if node in recorded:
            yield node, caller, not active[frame], not active_by[frame, caller]
        counted = frames[frame].kind in ("python", "region") or node in recorded
        if counted and node not in hidden:
            active[frame] += 1
            active_by[frame, caller] += 1
            todo.append((~node, caller))
            todo += [(child, frame) for child in children[node]]
        else:
            todo += [(child, caller) for child in children[node]]
