"""Exact figures by function: calls, times and callers, all threads together.

Views over the table `exact` (schema.sql), whose rows are paths.  A function's total counts its
outermost activations only, so that recursion does not inflate it; its callers are the nearest
Python functions above, whatever C lies between, or C functions whose calls were counted
(--c-calls).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyhybrid.errors import PyhybridError
from pyhybrid.fold import own_nodes
from pyhybrid.profile_file import Profile

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


def function_calls(profile: Profile) -> dict[int, FunctionCalls]:
    """What events counted of every function of the program, by frame id."""
    functions: dict[int, FunctionCalls] = {}
    own = own_nodes(profile)
    frame_of = profile.nodes.frame
    rows = defaultdict(list)
    for row in profile.exact:
        if row.node not in own:
            rows[row.node].append(row)
    for node, caller, is_outer, is_outer_here in _walk(profile, set(rows), own):
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


def traced_calls(profile: Profile) -> dict[int, FunctionCalls]:
    """The same; raises PyhybridError where nothing was traced."""
    functions = function_calls(profile)
    if not functions:
        raise PyhybridError(f"{profile.path}: no calls were traced (--mode trace or hybrid)")
    return functions


def _walk(
    profile: Profile, recorded: set[int], own: set[int]
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
        if counted and node not in own:
            active[frame] += 1
            active_by[frame, caller] += 1
            todo.append((~node, caller))
            todo += [(child, frame) for child in children[node]]
        else:
            todo += [(child, caller) for child in children[node]]
