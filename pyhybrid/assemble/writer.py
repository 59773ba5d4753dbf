"""Writes a finished spool into the tables of schema.sql.

Rows are put together by C iterators (zip, map) wherever there are many of them.  Weights become
nanoseconds here: the spool counts sampling periods.
"""

import json
import sqlite3
from array import array
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from operator import attrgetter
from typing import Any

from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.insertion import PROCESS, clean, insert, insert_columns
from pyhybrid.assemble.sample_counts import ThreadSamples
from pyhybrid.profile_file import schema
from pyhybrid.profile_file.exact_table import recursive_nodes
from pyhybrid.profile_file.long_tables import LongTables
from pyhybrid.profile_file.tables import Frame, Line, gil_name, stack_of, waits
from pyhybrid.pseudo import loss_name
from pyhybrid.spool.records import Chunk, Counters, Spool, Thread

NO_COUNTERS = Counters(0, 0, 0, 0, 0, (), (), ())


def _process_row(spool: Spool) -> tuple[Any, ...]:
    meta, end = spool.meta, spool.end
    argv = meta.get("argv")
    ends = (end.time_ns, end.cpu_ns or None, end.n_forked, end.n_spawned) if end else (None,) * 4
    return (
        PROCESS,
        meta.get("pid", spool.pid),
        clean(meta.get("executable")),
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
        clean(thread.name),
        clean(thread.comm),
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
        insert(database, "thread", [(*row, *weights, json.dumps(counters.handler_ns))])
        losses = zip(count(), counters.lost, counters.lost_weight, strict=False)
        insert(
            database,
            "loss",
            [
                (PROCESS, number, loss_name(reason), samples, weight * period)
                for reason, samples, weight in losses
                if samples or weight
            ],
        )
        insert(
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
    insert(
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
        row = (module.id, clean(module.path), module.build_id or None)
        insert(database, "module", [(*row, module.base, module.load_ns, module.unload_ns)])
        insert(database, "segment", ((module.id, *each) for each in module.segments))


def _write_tree(database: sqlite3.Connection, long: LongTables) -> None:
    in_file = attrgetter(*(each.name for each in fields(Frame) if each.name != "inlined"))
    insert(database, "frame", map(in_file, long.frames.values()))
    stacks = long.stacks
    columns = (stacks.parent, stacks.node, stacks.address, stacks.offset, stacks.line)
    rows = zip(count(), *columns, strict=False)
    next(rows)
    insert(database, "stack", rows)


def _code_rows(spool: Spool, frames: Frames) -> Iterator[tuple[Any, ...]]:
    told = {(f.qualname, f.file, f.first_line): f for f in spool.code_facts}
    for frame in frames.rows:
        facts = told.get((frame.name, frame.file or "", frame.line or 0))
        if frame.kind != "python" or not facts:
            continue
        texts = facts.name, facts.module, f"{facts.module}.{facts.qualname}", facts.file
        names = json.dumps(facts.arguments), json.dumps(facts.other_locals)
        row = *map(clean, texts), facts.first_line, *names, facts.stack_size
        yield (frame.id, *row)


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
    insert(database, "meta", meta)
    insert(database, "process", [_process_row(spool)])
    _write_modules(database, spool)
    _write_tree(database, long)
    _write_threads(database, spool, threads)
    insert(database, "line", ((PROCESS, *row) for row in lines))
    insert(database, "code", _code_rows(spool, frames))
    names = ((frame, name) for frame, some in frames.c_names.items() for name in sorted(some))
    insert(database, "c_function", ((frame, clean(name)) for frame, name in names))
    database.execute("COMMIT")
    ids = array("I", range(1, len(long.nodes.parent)))
    nodes = (ids, long.nodes.parent[1:], long.nodes.frame[1:])
    recursive = recursive_nodes(long.nodes, long.frames, long.exact.node)
    insert_columns(
        database,
        (
            ("INSERT INTO node VALUES ", "(?,?,?)", nodes),
            ("INSERT INTO exact VALUES ", f"({PROCESS},?,?,?,?,?,?,?,?)", long.exact.columns),
            ("INSERT INTO recursive_node VALUES ", "(?)", (recursive,)),
        ),
    )
