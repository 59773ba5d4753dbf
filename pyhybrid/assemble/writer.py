"""Writes a finished spool into the tables of a profile file.

Rows are put together by C iterators (zip, map) wherever there are many of them.  Weights become
nanoseconds here: the spool counts sampling periods.
"""

import sqlite3
from collections.abc import Iterator
from itertools import count
from typing import Any

from pyhybrid.assemble.frames import Frames
from pyhybrid.assemble.samples import ThreadSamples
from pyhybrid.base.pseudo_frames import loss_name
from pyhybrid.spool.content import Chunk, Counters, Spool, Thread
from pyhybrid.tables import (
    CFunction,
    Code,
    Exact,
    Frame,
    Line,
    Loss,
    Meta,
    Module,
    Node,
    Process,
    RecursiveNode,
    Sampled,
    Segment,
    Stack,
    Timeline,
    gil_name,
    stack_of,
    waits,
)
from pyhybrid.tables import Thread as ThreadRow
from pyhybrid.tables.database import PROCESS, clean, insert, insert_columns, numbered
from pyhybrid.tables.exact_table import recursive_nodes

type Made = dict[str, Any]  # what is made of a spool: a Profile's attributes, by name

NO_COUNTERS = Counters(0, 0, 0, 0, 0, (), (), ())


def _process_row(spool: Spool) -> tuple[Any, ...]:
    meta, end = spool.meta, spool.end
    ends = (end.time_ns, end.cpu_ns or None, end.n_forked, end.n_spawned) if end else (None,) * 4
    return (
        PROCESS,
        meta.get("pid", spool.pid),
        clean(meta.get("executable")),
        meta.get("argv") or [],
        meta.get("start_ns"),
        *ends,
    )


def _thread_row(
    number: int, thread: Thread, taken: ThreadSamples, counters: Counters, ended: bool
) -> tuple[Any, ...]:
    """Return the row of the table `thread`, but for its last three columns."""
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
        insert(database, ThreadRow, [(*row, *weights, counters.handler_ns)])
        losses = zip(count(), counters.lost, counters.lost_weight, strict=False)
        insert(
            database,
            Loss,
            [
                (number, loss_name(reason), samples, weight * period)
                for reason, samples, weight in losses
                if samples or weight
            ],
        )
        insert(
            database,
            Sampled,
            (
                (
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
        Timeline,
        (
            (chunk.thread, chunk.first_ns, len(chunk.place), *_arrays(chunk))
            for chunk in spool.chunks
        ),
    )


def _arrays(chunk: Chunk) -> tuple[bytes, ...]:
    return tuple(map(bytes, (chunk.dt_ns, chunk.place, chunk.weights, chunk.cpus)))


def _write_modules(database: sqlite3.Connection, spool: Spool) -> None:
    for module in spool.modules.values():
        row = (module.id, clean(module.path), module.build_id or None)
        insert(database, Module, [(*row, module.base, module.load_ns, module.unload_ns)])
        insert(database, Segment, ((module.id, *each) for each in module.segments))


def _code_rows(spool: Spool, frames: Frames) -> Iterator[tuple[Any, ...]]:
    facts_of = {(f.qualname, f.file, f.first_line): f for f in spool.code_facts}
    for frame in frames.rows:
        facts = facts_of.get((frame.name, frame.file or "", frame.line or 0))
        if frame.kind != "python" or not facts:
            continue
        texts = facts.name, facts.module, f"{facts.module}.{facts.qualname}", facts.file
        names = facts.arguments, facts.other_locals
        row = *map(clean, texts), facts.first_line, *names, facts.stack_size
        yield (frame.id, *row)


def write_figures(
    database: sqlite3.Connection,
    spool: Spool,
    frames: Frames,
    threads: dict[int, ThreadSamples],
    lines: list[Line],
) -> None:
    """Fill the tables of the process and its threads, and what is known of functions besides."""
    database.execute("BEGIN")
    insert(database, Process, [_process_row(spool)])
    _write_threads(database, spool, threads)
    insert(database, Line, lines)
    insert(database, Code, _code_rows(spool, frames))
    names = ((frame, name) for frame, some in frames.c_names.items() for name in sorted(some))
    insert(database, CFunction, ((frame, clean(name)) for frame, name in names))
    database.execute("COMMIT")


def write_made(database: sqlite3.Connection, spool: Spool, made: Made) -> None:
    """Fill the tables of what is `made`, which several processes may share."""
    database.execute("BEGIN")
    insert(database, Meta, sorted(spool.meta.items()))
    _write_modules(database, spool)
    n_stored = len(Frame.table.stored)
    insert(database, Frame, (row[:n_stored] for row in made["frames"].values()))
    database.execute("COMMIT")
    nodes, stacks, exact = made["nodes"], made["stack_columns"], made["exact"]
    recursive = recursive_nodes(nodes, made["frames"], exact.node)
    insert_columns(
        database,
        (
            (*Node.table.insert_columns, numbered(nodes)),
            (*Stack.table.insert_columns, numbered(stacks)),
            (*Exact.table.insert(PROCESS), exact.columns),
            (*RecursiveNode.table.insert(PROCESS), (recursive,)),
        ),
    )
