"""Writes single calls, and what is known of their times, into the tables of a profile file."""

import sqlite3
from collections.abc import Iterable

from pyhybrid._profile import CALL_PARTIAL, CALL_RAISED
from pyhybrid.assemble.kept_calls import WEIGHT_SHIFT, KeptCalls
from pyhybrid.profile_file.database import PROCESS, clean, insert, insert_columns
from pyhybrid.profile_file.tables import (
    Backward,
    Call,
    CallTime,
    ClockPair,
    EventLog,
    EventNode,
    Turn,
    WatchedCall,
)
from pyhybrid.spool.records import Spool, Ticks

_DELTAS = (
    *("cpu_ns", "user_ns", "system_ns", "process_ns", "minor_faults", "major_faults"),
    *("voluntary_switches", "involuntary_switches"),
)
# A call's turns come in order of time.
_USAGE = (
    f"INSERT INTO usage VALUES ({PROCESS},?,{','.join(['nullif(?,-1)'] * 12)})"
    " ON CONFLICT DO UPDATE SET cpu_end_ns = excluded.cpu_end_ns,"
    " resident_end = excluded.resident_end,"
    + ",".join(f" {name} = {name} + excluded.{name}" for name in _DELTAS)
)


def _whole_calls(thread: int) -> str:
    """Parameters: id, node, begin_ns, end_ns, info, parent."""
    state = f"CASE WHEN ?5 & {CALL_PARTIAL} THEN 'partial' WHEN ?5 & {CALL_RAISED} THEN 'raised'"
    return (
        f"INSERT INTO call VALUES (?1,{PROCESS},{thread},?2,?3,?4,?4 - ?3,"
        f"{state} ELSE 'returned' END,NULL,nullif(?6, 0),1 << (?5 >> {WEIGHT_SHIFT}))"
    )


def write_backward(database: sqlite3.Connection, rows: Iterable[Backward]) -> None:
    """Add the work of autograd nodes."""
    database.execute("BEGIN")
    insert(database, Backward, (row._replace(name=clean(row.name)) for row in rows))
    database.execute("COMMIT")


def write_calls(database: sqlite3.Connection, kept: KeptCalls) -> None:
    """Add the calls that were kept."""
    insert_columns(database, ((_whole_calls(of.thread), "", of[1:]) for of in kept.whole))
    insert_columns(database, ((_USAGE, "", each) for each in kept.usage))
    database.execute("BEGIN")
    insert(database, Call, kept.calls)
    database.executemany("UPDATE call SET attributes = ? WHERE id = ?", kept.attributes)
    insert(database, Turn, kept.turns)
    insert(database, CallTime, kept.times)
    database.execute("COMMIT")


def write_watched(
    database: sqlite3.Connection, spool: Spool, ticks: Ticks, nodes: dict[int, memoryview]
) -> None:
    """Add the calls of a framework's functions; `nodes` are those of exact_half.py."""
    database.execute("BEGIN")
    for index, calls in spool.watched.items():
        thread, of_thread = spool.exact_threads[index], nodes[index]
        rows = (
            (thread, of_thread[node], ticks.time(since), ticks.time(until), *cpu_ns, raised)
            for since, until, *cpu_ns, node, raised in calls
        )
        insert(database, WatchedCall, rows)
    database.execute("COMMIT")


def write_clock_pairs(database: sqlite3.Connection, spool: Spool, ticks: Ticks) -> None:
    """Add when it was what time of day."""
    database.execute("BEGIN")
    insert(database, ClockPair, ((ticks.time(at), unix) for at, unix in spool.clock_pairs))
    database.execute("COMMIT")


def write_events(
    database: sqlite3.Connection,
    spool: Spool,
    ticks: Ticks,
    threads: dict[int, int],
    nodes: dict[int, memoryview],
) -> None:
    """Add the event log; `threads` and `nodes` are those of exact_half.py."""
    database.execute("BEGIN")
    for each in spool.events:
        row = (threads[each.thread], ticks.time(each.first_ticks), ticks.multiply / ticks.divide)
        rest = (len(each.words), each.n_dropped, bytes(each.words))
        insert(database, EventLog, [(*row, *rest)])
    logged = {each.thread for each in spool.events}
    insert(database, EventNode, ((threads[i], nodes[i].tobytes()) for i in sorted(logged)))
    database.execute("COMMIT")
