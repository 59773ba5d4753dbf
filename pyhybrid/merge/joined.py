"""The windows of a flight recorder (capture/flight_recorder.py), which are one process after all.

What a process recorded in several spools, one after the other, is merged as several processes at
first.  Here they become one: its threads are those of the same number and begin, their figures add
up, and what single calls and samples are of is known by their times.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any

from pyhybrid.capture.children import RECORDER
from pyhybrid.merge import BEGIN
from pyhybrid.tables import FOLDED_TID, Process, ProcessMeta, Thread, schema

TICK_NS = 10_000_000  # in which the kernel has the begin of threads (proc_pid_stat(5))
_MOST = frozenset(("max_ns",))  # of a row's figures; the others are sums
_HISTOGRAMS = frozenset(("histogram", "handler_ns"))


class _Added:
    """Add up histograms, as JSON: an aggregate of SQLite.  They are lists of numbers, or of pairs,
    a bucket's begin and a number."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}
        self._are_pairs = False

    def step(self, text: Any) -> None:
        """Add one."""
        numbers = json.loads(text)
        self._are_pairs = self._are_pairs or any(isinstance(each, list) for each in numbers)
        pairs = numbers if self._are_pairs else enumerate(numbers)
        for bucket, n in pairs:
            self._sums[bucket] = self._sums.get(bucket, 0) + n

    def finalize(self) -> str:
        """Return the sums."""
        pairs = sorted(self._sums.items())
        return json.dumps(pairs if self._are_pairs else [n for _, n in pairs])


def join_windows(database: sqlite3.Connection) -> None:
    """Make one process of those in this file that are the windows of one.

    Raises sqlite3.Error.
    """
    windows = _windows(database)
    if not windows:
        return
    database.create_aggregate("added", 1, _Added)  # type: ignore[arg-type]
    database.execute("CREATE TEMP TABLE new_process (old INTEGER PRIMARY KEY, new INTEGER)")
    database.execute("CREATE TEMP TABLE new_thread (old INTEGER PRIMARY KEY, new INTEGER)")
    gaps = 0
    for group in windows:
        of_all = min(each.id for each in group)
        pairs = [(each.id, of_all) for each in group if each.id != of_all]
        database.executemany("INSERT INTO new_process VALUES (?, ?)", pairs)
        database.executemany("INSERT INTO new_thread VALUES (?, ?)", _threads(database, group))
        gaps += sum(b.start_ns - a.end_ns for a, b in _neighbours(group))
    for row in schema.TABLES.values():
        _join_rows(database, row)
    for group in windows:
        _join_process(database, group)
    _note(database, max(windows, key=len), gaps)
    database.execute("DROP TABLE temp.new_process")
    database.execute("DROP TABLE temp.new_thread")


def _note(database: sqlite3.Connection, group: list[Process], gaps_ns: int) -> None:
    """Add to the notes how much of the process's life this is."""
    ((text,),) = database.execute("SELECT coalesce(max(value), '[]') FROM meta WHERE key = 'notes'")
    spans = [each.end_ns - each.start_ns for each in group if each.end_ns and each.start_ns]
    note = (
        f"a flight recorder's: the last {sum(spans) / 1e9:.0f} s, in {len(group)} parts, between "
        f"which {gaps_ns / 1e9:.2f} s were not recorded"
    )
    notes = json.dumps([*json.loads(text), note])
    database.execute("INSERT OR REPLACE INTO meta VALUES ('notes', ?)", (notes,))


def _neighbours(group: list[Process]) -> Iterable[tuple[Any, Any]]:
    return [(a, b) for a, b in pairwise(group) if a.end_ns is not None and b.start_ns is not None]


def _windows(database: sqlite3.Connection) -> list[list[Process]]:
    """Return the processes that are one, several each, in order of time."""
    sql = (
        "SELECT p.id, coalesce(m.value, (SELECT value FROM meta WHERE key = ?)) "
        "FROM process p LEFT JOIN process_meta m ON m.process = p.id AND m.key = ?"
    )
    of = {process: text for process, text in database.execute(sql, (RECORDER, RECORDER)) if text}
    names = ", ".join(Process.table.stored)
    processes = [Process(*row) for row in database.execute(f"SELECT {names} FROM process")]
    rows = sorted(
        (each for each in processes if each.id in of),
        key=lambda each: (of[each.id], each.start_ns or 0),
    )
    groups = [list(group) for _, group in groupby(rows, lambda each: of[each.id])]
    return [group for group in groups if len(group) > 1]


def _threads(database: sqlite3.Connection, group: list[Process]) -> list[tuple[int, int]]:
    """Return the threads of later windows that earlier ones have, and which these are."""
    known: dict[tuple[Any, ...], int] = {}
    pairs = []
    for process in sorted(group, key=lambda each: each.id):
        sql = "SELECT id, tid, start_ns, comm FROM thread WHERE process = ? ORDER BY id"
        for thread, tid, start_ns, comm in database.execute(sql, (process.id,)):
            tick = (start_ns + TICK_NS // 2) // TICK_NS
            key = (tid, tick) if tid < FOLDED_TID else (tid, comm)
            if (of_it := known.setdefault(key, thread)) != thread:
                pairs.append((thread, of_it))
    return pairs


def _join_rows(database: sqlite3.Connection, row: type[schema.Row]) -> None:
    """Let a table's rows be of the joined processes and threads; those of one key add up."""
    table = row.table
    if row in (Process, ProcessMeta, Thread):
        return
    new, refers = {}, False
    for column in table.columns:
        new[column.name] = column.name
        if column.refers in ("process", "thread") and column.kind != "Id":
            to, refers = column.refers, True
            new[column.name] = (
                f"ifnull((SELECT new FROM temp.new_{to} WHERE old = {column.name}), {column.name})"
            )
    if not refers:
        return
    key = table.key or (("process", "thread", "reason") if table.name == "loss" else ())
    if not key:
        changed = ", ".join(f"{name} = {sql}" for name, sql in new.items() if sql != name)
        database.execute(f"UPDATE {table.name} SET {changed}")
        return
    values = (new[name] if name in key else _total(name) for name in new)
    kept = f"SELECT {', '.join(values)} FROM {table.name}"
    group = ", ".join(str(1 + list(new).index(name)) for name in key)
    database.execute(f"CREATE TEMP TABLE joined AS {kept} GROUP BY {group}")
    database.execute(f"DELETE FROM {table.name}")
    database.execute(f"INSERT INTO {table.name} SELECT * FROM temp.joined")
    database.execute("DROP TABLE temp.joined")


def _total(name: str) -> str:
    if name in _HISTOGRAMS:
        return f"added({name})"
    return f"max({name})" if name in _MOST else f"sum({name})"


def _join_process(database: sqlite3.Connection, group: list[Process]) -> None:
    """Let one row be the process, one be each thread, and the facts be those of the last window,
    which knows most; its begin is that of the first."""
    first, last, of_all = group[0], group[-1], min(each.id for each in group)
    joined = last.with_(group[:-1])._replace(id=of_all)
    ids = ", ".join(str(each.id) for each in group)
    totals = ", ".join(
        f"{name} = (SELECT {sql} FROM thread o WHERE o.id = thread.id OR o.id IN "
        "(SELECT old FROM temp.new_thread WHERE new = thread.id))"
        for name, sql in _THREAD.items()
    )
    database.execute(
        f"UPDATE thread SET {totals} WHERE process IN ({ids}) "
        "AND id IN (SELECT new FROM temp.new_thread)"
    )
    database.execute(
        f"DELETE FROM thread WHERE process IN ({ids}) AND id IN (SELECT old FROM temp.new_thread)"
    )
    database.execute(f"UPDATE thread SET process = {of_all} WHERE process IN ({ids})")
    facts = dict(_facts(database, last)) | {
        key: value for key, value in _facts(database, first) if key in BEGIN
    }
    database.execute(f"DELETE FROM process_meta WHERE process IN ({ids})")
    rows = [(of_all, key, value) for key, value in facts.items()]
    database.executemany("INSERT INTO process_meta VALUES (?, ?, ?)", rows)
    database.execute(f"DELETE FROM process WHERE id IN ({ids})")
    marks = ", ".join("?" * len(joined))
    values = [json.dumps(v) if isinstance(v, list) else v for v in joined]
    database.execute(f"INSERT INTO process VALUES ({marks})", values)


def _facts(database: sqlite3.Connection, process: Process) -> list[tuple[str, str]]:
    sql = "SELECT key, value FROM process_meta WHERE process = ?"
    return database.execute(sql, (process.id,)).fetchall()


_THREAD = {
    "name": "coalesce(max(CASE WHEN o.name != o.comm THEN o.name END), max(o.name))",
    "first_ns": "min(o.first_ns)",
    "last_ns": "max(o.last_ns)",
    **{
        name: f"sum(o.{name})"
        for name in ("cpu_ns", "signals", "recorded", "recorded_weight_ns", "missed_weight_ns")
    },
    "handler_ns": "added(o.handler_ns)",
}
