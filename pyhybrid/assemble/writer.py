"""Writes a finished spool into the tables of schema.sql.

Rows are put together by C iterators (zip, map) wherever there are many of them.  Weights become
nanoseconds here: the spool counts sampling periods.
"""

import json
import os
import sqlite3
from array import array
from collections.abc import Buffer, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from pyhybrid._profile import open_database, write_columns
from pyhybrid.assemble.exact_half import Ticks
from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.kept_calls import PARTIAL, RAISED, WEIGHT_SHIFT, KeptCalls
from pyhybrid.assemble.sample_counts import ThreadSamples
from pyhybrid.profile_file import schema
from pyhybrid.profile_file.long_tables import LongTables
from pyhybrid.profile_file.tables import Backward, Line, gil_name, stack_of, waits
from pyhybrid.pseudo import loss_name
from pyhybrid.spool.records import Chunk, Counters, Spool, Thread

PROCESS = 1  # one spool is one process

NO_COUNTERS = Counters(0, 0, 0, 0, 0, (), (), ())


def _clean(text: str | None) -> str | None:
    """Text as SQLite can hold it: lone surrogates (odd file names) become backslash escapes."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    rows = iter(rows)
    first = next(rows, None)
    if first is not None:
        sql = f"INSERT INTO {table} VALUES ({','.join('?' * len(first))})"
        database.execute(sql, first)
        database.executemany(sql, rows)


def _process_row(spool: Spool) -> tuple[Any, ...]:
    meta, end = spool.meta, spool.end
    argv = meta.get("argv")
    ends = (end.time_ns, end.cpu_ns or None, end.n_forked, end.n_spawned) if end else (None,) * 4
    return (
        PROCESS,
        meta.get("pid", spool.pid),
        _clean(meta.get("executable")),
        None if argv is None else json.dumps(argv),
        meta.get("start_ns"),
        *ends,
    )


def _thread_row(
    number: int, thread: Thread, taken: ThreadSamples, counters: Counters, ended: bool
) -> tuple[Any, ...]:
    """The row of the table `thread`, but for its last three columns."""
    recorded = taken.samples.total()
    # After a kill the last snapshot is older than the last samples: what was written counts.
    signals = counters.signals if ended else recorded + sum(counters.lost)
    return (
        number,
        PROCESS,
        thread.tid,
        _clean(thread.name),
        _clean(thread.comm),
        thread.start_ns,
        taken.first_ns,
        taken.last_ns,
        counters.cpu_ns or None,
        signals,
        recorded,
    )


def _write_threads(
    database: sqlite3.Connection, spool: Spool, threads: dict[int, ThreadSamples]
) -> None:
    period = spool.meta["period_ns"]
    for number, taken in threads.items():
        thread = spool.threads.get(number) or Thread(0, 0, "?", f"thread {number}")
        counters = spool.counters.get(number, NO_COUNTERS)
        periods = taken.periods()
        row = _thread_row(number, thread, taken, counters, spool.end is not None)
        weights = (sum(periods.values()) * period, counters.missed_weight * period)
        _insert(database, "thread", [(*row, *weights, json.dumps(counters.handler_ns))])
        losses = zip(count(), counters.lost, counters.lost_weight, strict=False)
        _insert(
            database,
            "loss",
            [
                (PROCESS, number, loss_name(reason), samples, weight * period)
                for reason, samples, weight in losses
                if samples or weight
            ],
        )
        _insert(
            database,
            "sampled",
            (
                (
                    PROCESS,
                    number,
                    stack_of(place),
                    gil_name(place),
                    waits(place),
                    taken.samples[place],
                    periods[place] * period,
                )
                for place in sorted(periods)
            ),
        )
    _insert(
        database,
        "timeline",
        (
            (PROCESS, chunk.thread, chunk.first_ns, len(chunk.place), *_arrays(chunk))
            for chunk in spool.chunks
        ),
    )


def _arrays(chunk: Chunk) -> tuple[bytes, ...]:
    return tuple(map(bytes, (chunk.dt_ns, chunk.place, chunk.weights, chunk.cpus)))


def _write_modules(database: sqlite3.Connection, spool: Spool) -> None:
    for module in spool.modules.values():
        row = (module.id, _clean(module.path), module.build_id or None)
        _insert(database, "module", [(*row, module.base, module.load_ns, module.unload_ns)])
        _insert(database, "segment", ((module.id, *each) for each in module.segments))


def _write_tree(database: sqlite3.Connection, frames: Frames, long: LongTables) -> None:
    _insert(
        database,
        "frame",
        (
            (
                *(f.id, f.kind, _clean(f.name), _clean(f.file), f.line),
                *(f.module, f.address, f.size, f.symbol, f.source, f.python_name),
            )
            for f in frames.rows
        ),
    )
    stacks = long.stacks
    columns = (stacks.parent, stacks.node, stacks.address, stacks.offset, stacks.line)
    rows = zip(count(), *columns, strict=False)
    next(rows)
    _insert(database, "stack", rows)


def _code_rows(spool: Spool, frames: Frames) -> Iterator[tuple[Any, ...]]:
    told = {(f.qualname, f.file, f.first_line): f for f in spool.code_facts}
    for frame in frames.rows:
        facts = told.get((frame.name, frame.file or "", frame.line or 0))
        if frame.kind != "python" or not facts:
            continue
        texts = facts.name, facts.module, f"{facts.module}.{facts.qualname}", facts.file
        names = json.dumps(facts.arguments), json.dumps(facts.other_locals)
        row = *map(_clean, texts), facts.first_line, *names, facts.stack_size
        yield (frame.id, *row)


def _file_of(database: sqlite3.Connection) -> str:
    """The path of its file; "": it is in memory."""
    database.text_factory = os.fsdecode
    ((_, _, file),) = database.execute("PRAGMA database_list").fetchall()
    database.text_factory = str
    return str(file)


def _write_columns(
    database: sqlite3.Connection, tables: Iterable[tuple[str, Sequence[Buffer]]]
) -> None:
    """Run each `INSERT` for each row of its columns of numbers; outside any transaction."""
    file = _file_of(database)
    of_file = open_database(file, True) if file else None
    for sql, columns in tables:
        if of_file is not None:
            write_columns(of_file, sql, *columns)
        else:
            database.executemany(sql, zip(*columns, strict=True))


def write(
    database: sqlite3.Connection,
    spool: Spool,
    frames: Frames,
    long: LongTables,
    threads: dict[int, ThreadSamples],
    lines: list[Line],
) -> None:
    """Fill the empty `database`: one transaction, no journal (the caller renames it when whole)."""
    database.executescript(f"PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;{schema.TEXT}")
    database.execute("BEGIN")
    meta = ((key, json.dumps(value)) for key, value in sorted(spool.meta.items()))
    _insert(database, "meta", meta)
    _insert(database, "process", [_process_row(spool)])
    _write_modules(database, spool)
    _write_tree(database, frames, long)
    _write_threads(database, spool, threads)
    _insert(database, "line", ((PROCESS, *row) for row in lines))
    _insert(database, "code", _code_rows(spool, frames))
    names = ((frame, name) for frame, all_names in frames.c_names.items() for name in all_names)
    _insert(database, "c_function", ((frame, _clean(name)) for frame, name in names))
    database.execute("COMMIT")
    ids = array("I", range(1, len(long.nodes.parent)))
    nodes = (ids, long.nodes.parent[1:], long.nodes.frame[1:])
    _write_columns(
        database,
        (
            ("INSERT INTO node VALUES (?,?,?)", nodes),
            (f"INSERT INTO exact VALUES ({PROCESS},?,?,?,?,?,?,?,?)", long.exact.columns),
        ),
    )


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
    state = f"CASE WHEN ?5 & {PARTIAL} THEN 'partial' WHEN ?5 & {RAISED} THEN 'raised'"
    return (
        f"INSERT INTO call VALUES (?1,{PROCESS},{thread},?2,?3,?4,?4 - ?3,"
        f"{state} ELSE 'returned' END,NULL,nullif(?6, 0),1 << (?5 >> {WEIGHT_SHIFT}))"
    )


def write_backward(database: sqlite3.Connection, rows: Iterable[Backward]) -> None:
    """Add the work of autograd nodes."""
    database.execute("BEGIN")
    _insert(database, "backward", ((PROCESS, *r[:2], _clean(r.name), *r[3:]) for r in rows))
    database.execute("COMMIT")


def write_calls(database: sqlite3.Connection, kept: KeptCalls) -> None:
    """Add the calls that were kept."""
    _write_columns(database, ((_whole_calls(of.thread), of[1:]) for of in kept.whole))
    _write_columns(database, ((_USAGE, each) for each in kept.usage))
    database.execute("BEGIN")
    _insert(database, "call", ((call.id, PROCESS, *call[1:]) for call in kept.calls))
    database.executemany("UPDATE call SET attributes = ? WHERE id = ?", kept.attributes)
    _insert(database, "turn", ((PROCESS, *turn) for turn in kept.turns))
    _insert(database, "call_time", ((PROCESS, *row) for row in kept.times))
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
        _insert(database, "watched_call", rows)
    database.execute("COMMIT")


def write_clock_pairs(database: sqlite3.Connection, spool: Spool, ticks: Ticks) -> None:
    """Add when it was what time of day."""
    database.execute("BEGIN")
    _insert(database, "clock_pair", ((ticks.time(at), unix) for at, unix in spool.clock_pairs))
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
        _insert(database, "event_log", [(PROCESS, *row, *rest)])
    logged = {each.thread for each in spool.events}
    rows = ((PROCESS, threads[i], nodes[i].tobytes()) for i in sorted(logged))
    _insert(database, "event_node", rows)
    database.execute("COMMIT")
