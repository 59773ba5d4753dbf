"""When calls began and ended, one after the other: what traces are made of.

From the event log where the profile has one (--events), else from the single calls that were kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from pyhybrid.tables import Call
from pyhybrid.tables.profile import Profile

BEGINS = ("call", "resume")
CUT = "cut"  # an end that is not known: the call went on, or its end is missing
GAP = "gap"  # neither: `node` events are missing here
_HOW = {"returned": "return", "raised": "raise", "partial": CUT}


class Edge(NamedTuple):
    """Hold a begin (how: one of BEGINS), an end (return, yield, raise, CUT) of a call, or GAP.

    `call`: the kept call, where it is made from one.
    """

    thread: int
    time_ns: int
    how: str
    node: int
    call: Call | None = None


def edges(profile: Profile) -> Iterator[Edge]:
    """Yield them thread by thread, in order of time; every begin has its end, and they nest.

    An end without a begin (of what ran when the log begins) is left out.
    """
    found = _of_log(profile) if _is_logged(profile) else _of_calls(profile)
    for _, of_thread in groupby(found, lambda edge: edge.thread):
        yield from _balanced(of_thread)


def n_left_out(profile: Profile) -> int:
    """Return about how many calls have no edges, since only some were kept (--max-calls)."""
    return 0 if _is_logged(profile) else sum(call.weight - 1 for call in profile.calls)


def _is_logged(profile: Profile) -> bool:
    return bool(profile.query("SELECT 1 FROM event_log LIMIT 1"))


def _of_log(profile: Profile) -> Iterator[Edge]:
    for event in profile.events():
        if event.thread in profile.threads:
            yield Edge(*event)


def _of_calls(profile: Profile) -> Iterator[Edge]:
    """Yield those of calls, which are parts of one another, or apart, but for equal times."""
    turns = defaultdict(list)
    for turn in profile.turns:
        turns[turn.call].append((turn.thread, turn.begin_ns, turn.end_ns))
    spans = defaultdict(list)
    for call in profile.calls:
        parts = turns[call.id] or [(call.thread, call.begin_ns, call.end_ns)]
        for at, (thread, begin_ns, end_ns) in enumerate(parts):
            begins = BEGINS[at > 0]
            ends = _HOW[call.state] if at == len(parts) - 1 else "yield"
            spans[thread].append((begin_ns, -end_ns, call.node, begins, ends, call))
    for thread, of_thread in spans.items():
        open_: list[tuple[int, Edge]] = []
        for begin_ns, minus_end_ns, node, begins, ends, call in sorted(of_thread):
            while open_ and open_[-1][0] <= begin_ns:
                yield open_.pop()[1]
            end_ns = min(-minus_end_ns, open_[-1][0]) if open_ else -minus_end_ns
            yield Edge(thread, begin_ns, begins, node, call)
            open_.append((end_ns, Edge(thread, end_ns, ends, node, call)))
        while open_:
            yield open_.pop()[1]


def _balanced(recorded: Iterable[Edge]) -> Iterator[Edge]:
    """Yield the edges of a thread, with the ends that are missing."""
    open_: list[Edge] = []
    last_ns = 0
    for edge in recorded:
        last_ns = edge.time_ns
        if edge.how in BEGINS:
            open_.append(edge)
        elif edge.how != GAP:
            at = next((i for i in reversed(range(len(open_))) if open_[i].node == edge.node), None)
            if at is None:
                continue
            yield from _cut(open_, at + 1, last_ns)
            open_.pop()
        yield edge
    yield from _cut(open_, 0, last_ns)


def _cut(open_: list[Edge], n_kept: int, time_ns: int) -> Iterator[Edge]:
    while len(open_) > n_kept:
        yield open_.pop()._replace(time_ns=time_ns, how=CUT)
