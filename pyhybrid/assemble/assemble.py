"""From the spool to the tables: names are found, stacks become the tree.

Reads the spool (spool/reader.py), names what was hit (symbols/resolve.py, frames.py), builds the
tree (trees.py) and fills a database (writer.py; single calls: calls.py).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import NamedTuple

from pyhybrid.assemble import calls, writer
from pyhybrid.assemble.calls import KeptCalls, drop_short, kept_calls
from pyhybrid.assemble.exact import (
    backward_rows,
    exact_table,
    line_rows,
    unsampled_calls,
    with_objects,
)
from pyhybrid.assemble.frames import Frames, name_starts
from pyhybrid.assemble.import_calls import fold_import_calls
from pyhybrid.assemble.own_work import fold_own_work
from pyhybrid.assemble.run_part import Marks, restrict
from pyhybrid.assemble.samples import ThreadSamples, count_samples
from pyhybrid.assemble.source_files import source_files
from pyhybrid.assemble.torch_calls import name_calls, name_modules
from pyhybrid.assemble.trees import Forest, Tree
from pyhybrid.base.pseudo_frames import DECORATED, TREE_FULL
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.frameworks.torch_device_memory import META as DEVICE_MEMORY
from pyhybrid.gpu import live
from pyhybrid.options.function_filter import is_one_of, named
from pyhybrid.spool import reader as spools
from pyhybrid.spool.content import Spool, Ticks
from pyhybrid.symbols.mapped import loader_of, name_nameless
from pyhybrid.symbols.resolve import KernelTable, Loader, Symbolizer
from pyhybrid.symbols.source_positions import Demangle
from pyhybrid.tables import OBJECT, Backward, Line, Module, schema
from pyhybrid.tables.database import clean

# What names functions in the meta data, as its user knows it.
_NAMED = {
    "-t": "functions",
    "--keep": "keep",
    "--arguments": "args",
    "--usage": "usage_of",
    "[[function]]": "function_tables",
}


class Assembled(Struct):
    """Hold what a spool has, with names and as a tree: all that goes into the tables."""

    parts: writer.Made
    _spool: Spool
    _frames: Frames
    _threads: dict[int, ThreadSamples]
    _ticks: Ticks
    _nodes: dict[int, memoryview]
    _lines: list[Line]
    _backward: list[Backward]
    _kept: KeptCalls

    def write(self, database: sqlite3.Connection) -> None:
        """Fill the empty `database`, without a journal: the caller renames it when it is whole.

        Raises sqlite3.Error where it cannot be written.
        """
        no_journal = "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;"
        database.executescript(f"{no_journal}{schema.create_all()}")
        writer.write_made(database, self._spool, self.parts)
        self.write_figures(database)

    def write_figures(self, database: sqlite3.Connection) -> None:
        """Fill the tables that are not made of `parts`, of a database that has nothing in them."""
        spool, ticks, nodes = self._spool, self._ticks, self._nodes
        writer.write_figures(database, spool, self._frames, self._threads, self._lines)
        calls.write_backward(database, self._backward)
        calls.write_calls(database, self._kept)
        drop_short(database, spool.meta.get("slower_than", []), self.parts["nodes"])
        calls.write_watched(database, spool, ticks, nodes)
        calls.write_clock_pairs(database, spool, ticks)
        if not spool.meta.get("events_by_window"):
            calls.write_events(database, spool, ticks, spool.exact_threads, nodes)
        if spool.device_work:
            live.add(database, spool, ticks, nodes)


def assemble(
    database: sqlite3.Connection,
    spool_path: str,
    symbols: tuple[Loader, Demangle] | None = None,
) -> writer.Made:
    """Read the spool at `spool_path` and fill the empty `database`: see `assembled`; returns what
    need not be read back.  Raises sqlite3.Error, too.
    """
    made = assembled(spool_path, symbols)
    made.write(database)
    return made.parts


def assembled(
    spool_path: str, symbols: tuple[Loader, Demangle] | None = None, marks: Marks = ()
) -> Assembled:
    """Read the spool at `spool_path`, as `read_spool`.

    `symbols` replaces the extension module's lookup.  Raises PyhybridError where the spool cannot
    be read.
    """
    return assembled_of(read_spool(spool_path, marks), symbols)


class Recorded(NamedTuple):
    """A recording is a spool, what its threads' samples refer to, and all its trees as one."""

    spool: Spool
    threads: dict[int, ThreadSamples]
    forest: Forest


def read_spool(path: str, marks: Marks = ()) -> Recorded:
    """Read the spool at `path`, with `marks` what is between them (run_part.py).

    Raises PyhybridError.
    """
    spool = spools.read(path)
    if marks:
        restrict(spool, marks)
    name_nameless(spool)
    fold_import_calls(spool)
    threads = count_samples(spool)  # first: it gives samples that have no stack one
    return Recorded(spool, threads, Forest(spool))


def assembled_of(
    recorded: Recorded,
    symbols: tuple[Loader, Demangle] | None = None,
    kernel: Callable[[], KernelTable] | None = None,
) -> Assembled:
    """Return what the spool has; `symbols` and `kernel` replace where names are looked up."""
    spool, threads, forest = recorded
    notes: list[str] = []
    load: Loader | None = None
    demangle: Demangle = str
    try:
        load, demangle = symbols or loader_of(spool)
    except PyhybridError as error:
        notes.append(str(error))
    symbolizer = Symbolizer(spool, load, demangle, kernel)
    frames = Frames(spool, forest, symbolizer)
    name_starts(spool, frames)
    fold_own_work(spool, forest, frames)
    sampled = {stack for taken in threads.values() for stack in taken.stacks()}
    tree = Tree(spool, forest, frames, sampled)
    nodes = tree.exact_nodes(spool, forest)
    exact = exact_table(spool, forest, tree, _wrappers(frames))
    exact = with_objects(exact, tree, {row.id for row in frames.rows if row.source == OBJECT})
    lines = list(line_rows(spool, forest, tree))
    ticks = Ticks(spool)
    kept = kept_calls(spool, ticks, spool.exact_threads, nodes)
    if spool.n_damaged:
        notes.insert(0, f"{spool.n_damaged:,} damaged records of {spool.path} are left out")
    notes += [
        f"{option} {name}: no function of this name ran{_but(name, frames)}"
        for option, names in _NAMED.items()
        for name in spool.meta.get(names, ())
        if not any(
            is_one_of(named([name]), each.qualname, each.module, each.file)
            for each in spool.code_facts
        )
    ]
    if spool.meta.get("usage") and not spool.calls:
        notes.append("--usage is of calls that are kept (--keep NAME), and of regions: none was")
    if spool.meta.get("paused") and not sampled and not exact:
        notes.append(
            "nothing was profiled (-p): `pyhybrid.enable()` in the program begins it, or a test "
            "with the fixture pyhybrid_profile"
        )
    if spool.meta.get("start_at") and not sampled and not exact:
        when = spool.meta["start_at"]
        notes.append(f"nothing was profiled: the program ended before --start-at {when}")
    sampled_threads = [t for index, t in spool.threads.items() if threads[index].stacks()]
    notes += [
        f"--wall-thread {pattern}: no thread of this name was sampled"
        for pattern in spool.meta.get("wall_threads", ())
        if not any(fnmatchcase(name, pattern) for t in sampled_threads for name in (t.name, t.comm))
    ]
    if any(row.symbol == TREE_FULL and row.kind == "pseudo" for row in frames.rows):
        notes.append("too many distinct paths: below [tree full] they are one (--max-nodes)")
    if merged := sum(row.samples for row in spool.sums):
        until_ns = max(row.last_ns for row in spool.sums) - spool.meta["start_ns"]
        notes.append(
            f"the {merged:,} samples of the first {until_ns / 1e9:,.0f} s are sums, without their "
            "times (--max-timeline)"
        )
    if reason := spool.meta.get("modules_off"):
        notes.append(f"modules of PyTorch are no frames: {reason}")
    if reason := spool.meta.get("shapes_off"):
        notes.append(f"shapes of operators are not noted: {reason}")
    if reason := spool.meta.get("memory_off"):
        notes.append(f"what PyTorch's allocator gives out is not known: {reason}")
    if reason := spool.meta.get("backward_off"):
        notes.append(f"backward work is not told by module: {reason}")
    if failures := (spool.meta.get(DEVICE_MEMORY) or {}).get("failures"):
        device, wanted, _ = failures[-1]
        n = spool.meta[DEVICE_MEMORY]["n_failures"]
        notes.append(
            f"GPU {device} had no memory left for {wanted / 1e6:,.0f} MB"
            f"{f' (the last of {n:,} such requests)' * (n > 1)}: `pyhybrid report memory`"
        )
    notes += live.notes(spool.meta)
    lost = {times.thread: times.n_lost for times in spool.call_times.values()}
    if any(lost.values()):
        notes.append(f"{sum(lost.values()):,} calls found no memory to be kept; their times count")
    if dropped := sum(events.n_dropped for events in spool.events):
        notes.append(f"{dropped:,} events are not in the log: it was full")
    spool.meta["notes"] = [*spool.meta.get("notes", ()), *notes, *symbolizer.notes]
    if sources := source_files(spool):
        spool.meta["sources"] = sources
    spool.meta["kernel_lost"] = spool.end.n_kernel_lost if spool.end else 0
    spool.meta["kernel_mute"] = spool.end.n_mute if spool.end else 0
    spool.meta["unaccounted_ns"] = max(0, spool.end.unaccounted_ns) if spool.end else 0
    spool.meta["kernel_text"] = symbolizer.kernel_text()
    spool.meta["kernel_build_id"] = symbolizer.kernel_build_id()
    spool.meta["unsampled_calls"] = unsampled_calls(forest, tree)
    spool.meta["complete"] = spool.end is not None
    name_calls(spool, nodes, tree, frames)
    name_modules(spool, nodes, tree, frames)
    if not spool.end and spool.clocks:
        spool.meta["recorded_until_ns"] = spool.clocks[-1][1]
    spool.meta.setdefault("n_cpus", os.cpu_count() or 1)
    parts: writer.Made = {
        "nodes": tree.node_table(),
        "stack_columns": tree.stack_columns(forest, frames),
        "exact": exact,
        "frames": frames.table(),
        "meta": json.loads(json.dumps(spool.meta)),
        "modules": dict(_modules(spool)),
        "recorded_stacks": frozenset(sampled),
    }
    backward = list(backward_rows(spool, nodes))
    return Assembled(parts, spool, frames, threads, ticks, nodes, lines, backward, kept)


def _modules(spool: Spool) -> Iterable[tuple[int, Module]]:
    """Yield the rows of the tables `module` and `segment`."""
    for number, module in sorted(spool.modules.items()):
        where = (module.base, module.load_ns, module.unload_ns)
        segments = sorted(module.segments, key=itemgetter(0))
        path, build_id = clean(module.path), module.build_id or None
        yield number, Module(number, path, build_id, *where, segments)


def _but(name: str, frames: Frames) -> str:
    """Name methods that ran, where a name is one without its class."""
    ends = f".{name}"
    methods = {r.name for r in frames.rows if r.kind == "python" and r.name.endswith(ends)}
    few = " and ".join(sorted(methods)[:2]) + (" and others" if len(methods) > 2 else "")
    return f", but {few} did: '*.{name}'" if methods else ""


def _wrappers(frames: Frames) -> set[int]:
    """Return the frames of what stands between decorated functions and their callers."""
    return {row.id for row in frames.rows if row.kind == "python" and row.name == DECORATED}
