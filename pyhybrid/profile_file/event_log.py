"""The event log of a profile, event by event."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyhybrid.damage import damage_in
from pyhybrid.profile_file.tables import Event

if TYPE_CHECKING:
    from pyhybrid.profile_file.profile import Profile

# src/trace/event_log.h
KINDS = ("call", "resume", "return", "yield", "raise", "time", "gap")
TIME, GAP = 5, 6
STEP_MASK, KIND_SHIFT, VALUE_SHIFT, STEP_BITS = 0xFFFFFFFF, 32, 35, 32


def events(profile: "Profile") -> Iterator[Event]:
    """All of them, thread by thread in order of time.  Raises PyhybridError where it is damaged."""
    with damage_in(profile.path):
        yield from _events(profile)


def _events(profile: "Profile") -> Iterator[Event]:
    nodes = {
        thread: array("I", blob)
        for thread, blob in profile.query("SELECT thread, node FROM event_node")
    }
    parts = profile.query("SELECT rowid FROM event_log ORDER BY thread, first_ns, rowid")
    sql = "SELECT thread, first_ns, tick_ns, n_dropped, events FROM event_log WHERE rowid = ?"
    for (part,) in parts:
        ((thread, first_ns, tick_ns, n_dropped, blob),) = profile.query(sql, part)
        yield from decoded(array("Q", blob), thread, first_ns, tick_ns, nodes[thread])
        if n_dropped:
            yield Event(thread, first_ns, KINDS[GAP], n_dropped)


def decoded(
    words: Iterable[int], thread: int, first_ns: int, tick_ns: float, nodes: Sequence[int]
) -> Iterator[Event]:
    """The events of a part of a thread's log; its node i is `nodes[i]`."""
    ticks = 0
    for word in words:
        ticks += word & STEP_MASK
        kind, value = word >> KIND_SHIFT & 7, word >> VALUE_SHIFT
        if kind == TIME:
            ticks += value << STEP_BITS
            continue
        node = value if kind == GAP else nodes[value]
        yield Event(thread, first_ns + round(ticks * tick_ns), KINDS[kind], node)
