"""Single calls of chosen functions and of regions: how long each took.

From the spool (src/exact/kept_calls.h) to the tables `call`, `turn` and `call_time`.  There
may be a million calls: those of one turn, nearly all, are columns.
"""

from __future__ import annotations

import sqlite3
import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyhybrid._columns import (
    CALL_ENDED,
    CALL_FIRST,
    CALL_PARTIAL,
    CALL_RAISED,
    CALLS_FIRST,
    CALLS_OCTAVE,
    call_rows,
    call_usage,
    take,
)
from pyhybrid.base.structs import Struct, made
from pyhybrid.options.function_filter import is_one_of, named
from pyhybrid.spool.content import Spool, Ticks, attributes_as_json
from pyhybrid.tables import (
    Backward,
    Call,
    CallTime,
    ClockPair,
    EventLog,
    EventNode,
    Nodes,
    Turn,
    WatchedCall,
)
from pyhybrid.tables.call_durations import Durations
from pyhybrid.tables.database import PROCESS, clean, insert, insert_columns

WEIGHT_SHIFT = 16  # of `info`, as call_rows gives it


def bucket_begin(bucket: int) -> int:
    """Return where a bucket of src/exact/kept_calls.h begins, in ticks."""
    octave, part = divmod(bucket, CALLS_OCTAVE)
    return ((CALLS_OCTAVE + part) << (CALLS_FIRST + octave)) // CALLS_OCTAVE if bucket else 0


class WholeCalls(NamedTuple):
    """Hold the calls of one turn each, of one thread, in columns; `parent` 0: none."""

    thread: int
    id: memoryview
    node: memoryview
    begin_ns: memoryview
    end_ns: memoryview
    info: memoryview
    parent: memoryview


class KeptCalls(Struct):
    """Hold the rows of the tables of the same names: calls of one turn in columns, all others."""

    whole: list[WholeCalls] = made(list)
    calls: list[Call] = made(list)
    turns: list[Turn] = made(list)
    usage: list[tuple[memoryview, ...]] = made(list)  # columns, a row each turn
    attributes: list[tuple[str, int]] = made(list)  # JSON, of call
    times: list[CallTime] = made(list)


class _Turn(NamedTuple):
    """A turn is one of a call that has several; `row` and `around` are as ids."""

    since_ns: int
    until_ns: int
    thread: int
    row: int
    node: int
    info: int
    around: int


class _Rows:
    """Hold one thread's turns, with an id for each row; a call's is that of its first turn."""

    def __init__(
        self, spool: Spool, index: int, thread: int, ticks: Ticks, nodes: memoryview, before: int
    ) -> None:
        """Read those of the thread `index` of the exact half; ids begin after `before`."""
        self.thread, self.bytes = thread, b"".join(spool.calls[index])
        columns = call_rows(self.bytes, nodes[1:], *ticks.clock)
        *self.columns, self.n_whole, serials, places, lengths, n_damaged = columns[:12]
        self._usage_rows, self._usage_places = columns[12:]
        spool.n_damaged += n_damaged
        self.attributes: dict[int, str] = {}  # JSON, by serial, of those calls that have any
        view = memoryview(self.bytes)
        for serial, at, length in zip(serials, places, lengths, strict=True):
            try:
                self.attributes[serial] = attributes_as_json(view[at : at + length])
            except (ValueError, struct.error):
                spool.n_damaged += 1
        self.n = len(self.columns[0])
        self.ids = array("I", range(before, before + self.n + 1))
        self.ids[0] = 0

    def several(self) -> list[tuple[int, _Turn]]:
        """Return turns of calls that have several, with the call's serial."""
        turns = [column[self.n_whole :].tolist() for column in self.columns]
        return [
            (serial, _Turn(since, until, self.thread, self.ids[row], node, info, self.ids[around]))
            for row, serial, node, info, around, since, until in zip(*turns, strict=True)
        ]

    def whole(self, is_first: dict[int, int]) -> WholeCalls:
        """Return the others; `is_first`: of later turns the first one's id."""
        first = self.ids[1] if self.n else 0
        for later, call in is_first.items():
            if first <= later < first + self.n:
                self.ids[later - first + 1] = call
        row, _, node, info, around, begin, end = (each[: self.n_whole] for each in self.columns)
        parent = take(self.ids, around)
        return WholeCalls(self.thread, take(self.ids, row), node, begin, end, info, parent)

    def usage(self) -> tuple[memoryview, ...]:
        """Return call, and what each turn used, in columns; it is called after `whole`."""
        used = call_usage(self.bytes, self._usage_places)
        return take(self.ids, self._usage_rows), *used


def kept_calls(
    spool: Spool, ticks: Ticks, threads: dict[int, int], nodes: dict[int, memoryview]
) -> KeptCalls:
    """Return the rows; `threads` and `nodes` are those of exact.py.  Damage is counted."""
    kept = KeptCalls()
    all_rows: list[_Rows] = []
    by_serial: defaultdict[int, list[_Turn]] = defaultdict(list)
    n = 0
    for index in sorted(spool.calls, key=lambda index: threads[index]):
        rows = _Rows(spool, index, threads[index], ticks, nodes[index], n)
        n += rows.n
        all_rows.append(rows)
        for serial, turn in rows.several():
            by_serial[serial].append(turn)
    first: dict[int, int] = {}  # of a later turn's id that of the call's first
    for turns in by_serial.values():
        turns.sort()
        first.update((turn.row, turns[0].row) for turn in turns[1:])
    ids = {serial: turns[0].row for serial, turns in by_serial.items()}
    for turns in by_serial.values():
        kept.calls.append(_several(turns, first))
        kept.turns += [Turn(turns[0].row, t.thread, t.since_ns, t.until_ns) for t in turns]
    for rows in all_rows:
        kept.whole.append(rows.whole(first))
        kept.usage.append(rows.usage())
        attributes = rows.attributes
        if attributes:
            ids.update(zip(rows.columns[1][: rows.n_whole], kept.whole[-1].id, strict=True))
            known = ((text, ids.get(serial)) for serial, text in attributes.items())
            kept.attributes += [(text, call) for text, call in known if call]
    _add_times(kept, spool, ticks, threads, nodes)
    return kept


def _several(turns: list[_Turn], first: dict[int, int]) -> Call:
    begin, last = turns[0], turns[-1]
    state = "raised" if last.info & CALL_RAISED else "returned"
    is_whole = begin.info & CALL_FIRST and last.info & CALL_ENDED
    if not is_whole or any(turn.info & CALL_PARTIAL for turn in turns):
        state = "partial"
    return Call(
        begin.row,
        begin.thread,
        begin.node,
        begin.since_ns,
        last.until_ns,
        sum(turn.until_ns - turn.since_ns for turn in turns),
        state,
        None,
        first.get(begin.around, begin.around) or None,
        1 << (begin.info >> WEIGHT_SHIFT),
    )


def _add_times(
    kept: KeptCalls,
    spool: Spool,
    ticks: Ticks,
    threads: dict[int, int],
    nodes: dict[int, memoryview],
) -> None:
    times: defaultdict[tuple[int, int], Durations] = defaultdict(Durations)
    for thread, node, n, total, most, _, buckets in spool.call_times.values():
        histogram = {ticks.span(bucket_begin(i)): n for i, n in enumerate(buckets) if n}
        of_path = times[threads[thread], nodes[thread][node]]
        of_path.add(n, ticks.span(total), ticks.span(most), histogram)
    for key, each in sorted(times.items()):
        rows = sorted(each.histogram.items())
        kept.times.append(CallTime(*key, each.calls, each.total_ns, each.max_ns, rows))


# Writes single calls, and what is known of their times, into the tables of a profile file.

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
    """Return the statement, whose parameters are: id, node, begin_ns, end_ns, info, parent."""
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
    """Add the calls of a framework's functions; `nodes` are those of exact.py."""
    database.execute("BEGIN")
    for index, calls in spool.watched.items():
        thread, of_thread = spool.exact_threads[index], nodes[index]
        rows = (
            (
                thread,
                of_thread[node],
                ticks.time(since),
                ticks.time(until),
                cpu_since,
                cpu_until,
                *how,
            )
            for since, until, cpu_since, cpu_until, node, *how in calls
        )
        insert(database, WatchedCall, rows)
    database.execute("COMMIT")


def write_clock_pairs(database: sqlite3.Connection, spool: Spool, ticks: Ticks) -> None:
    """Add at what moments it was what time of day."""
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
    """Add the event log; `threads` and `nodes` are those of exact.py."""
    database.execute("BEGIN")
    for each in spool.events:
        row = (threads[each.thread], ticks.time(each.first_ticks), ticks.multiply / ticks.divide)
        rest = (len(each.words), each.n_dropped, bytes(each.words))
        insert(database, EventLog, [(*row, *rest)])
    logged = {each.thread for each in spool.events}
    insert(database, EventNode, ((threads[i], nodes[i].tobytes()) for i in sorted(logged)))
    database.execute("COMMIT")


# Single calls of functions that have a `slower_than`: shorter ones are left out of the file.


def drop_short(database: sqlite3.Connection, slower_than: list[Any], nodes: Nodes) -> None:
    """Drop calls that took less than `slower_than` has for their function: (name, nanoseconds).

    Calls that are not there from begin to end stay.  What began within a call that goes began
    within the next one further out.
    """
    for name, least_ns in slower_than:
        functions = database.execute("SELECT frame, path, module, file FROM code").fetchall()
        frames = {
            frame
            for frame, path, module, file in functions
            if is_one_of(named([name]), path.removeprefix(f"{module}."), module, file)
        }
        chosen = ((node,) for node, frame in enumerate(nodes.frame) if node and frame in frames)
        database.execute("BEGIN")
        database.execute("CREATE TEMP TABLE chosen(node INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO chosen VALUES (?)", chosen)
        database.execute("CREATE TEMP TABLE short(id INTEGER PRIMARY KEY, parent INTEGER)")
        database.execute(
            "INSERT INTO short SELECT id, parent FROM call"
            " WHERE node IN (SELECT node FROM chosen) AND end_ns - begin_ns < ?"
            " AND state != 'partial'",
            (least_ns,),
        )
        while database.execute(
            "UPDATE call SET parent = (SELECT short.parent FROM short WHERE short.id = call.parent)"
            " WHERE parent IN (SELECT id FROM short)"
        ).rowcount:
            pass
        for table in ("turn", "usage"):
            database.execute(f"DELETE FROM {table} WHERE call IN (SELECT id FROM short)")
        database.execute("DELETE FROM call WHERE id IN (SELECT id FROM short)")
        database.execute("DROP TABLE chosen")
        database.execute("DROP TABLE short")
        database.execute("COMMIT")
