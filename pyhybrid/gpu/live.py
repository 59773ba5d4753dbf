"""The work of a GPU that was recorded while the program ran (frameworks/torch_gpu.py).

A launch's thread comes from CUPTI, which knows threads that torch.profiler has not met by the lower
bits of pthread_self().  Work of a backward pass is that of the piece of it that ran on the thread
then: those are logged with the call that made them (backward_work.h), so no operators are needed.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

from pyhybrid.frameworks import torch
from pyhybrid.gpu import GpuTrace, Launch, Piece, Placed, Wait, Work, graph_name, place
from pyhybrid.spool.content import Spool, Ticks
from pyhybrid.tables import Event
from pyhybrid.tables.database import File
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.timeline import events_of

_LAUNCH, _WORK = 5, 6  # numbers of each: torch_gpu.py
_HANDLE_BITS = 0xFFFFFFFF


def add(
    database: sqlite3.Connection, spool: Spool, ticks: Ticks, nodes: dict[int, memoryview]
) -> Placed:
    """Add it to the tables, which have all else but the events; `nodes` are those of exact.py."""
    profile = Profile(spool.path, File(spool.path, database), meta=spool.meta)
    placed = place(profile, _trace(spool, ticks, nodes), _events(spool, ticks, nodes))
    database.execute("BEGIN")
    placed.write(database)
    database.execute("COMMIT")
    return placed


def notes(meta: dict[str, Any]) -> Iterator[str]:
    """Yield the notes on the recording, a line each."""
    if not meta.get("gpu_steps"):
        return
    recorded = meta.get("gpu", {})
    if recorded.get("failed"):
        yield f"--torch gpu: recording ended: {recorded['failed']}"
    elif not recorded:
        yield "--torch gpu: the program has not imported PyTorch"
    elif not recorded["cuda"]:
        yield "--torch gpu: this PyTorch is built without CUDA"
    elif not recorded["steps"]:
        yield "--torch gpu: no step of a training was seen, and no call of a model"
    elif not recorded["used"]:
        yield "--torch gpu: the program used no GPU"
    if n := recorded.get("aside"):
        windows = "1 window" if n == 1 else f"{n} windows"
        yield f"--torch gpu: {windows} made way for the program's own torch.profiler"


def _events(spool: Spool, ticks: Ticks, nodes: dict[int, memoryview]) -> Iterator[Event]:
    """Yield the log, thread by thread in order of time."""
    tick_ns = ticks.multiply / ticks.divide
    for each in sorted(spool.events, key=lambda each: (each.thread, each.first_ticks)):
        where = spool.exact_threads[each.thread], ticks.time(each.first_ticks), tick_ns
        yield from events_of(each.words, *where, nodes[each.thread])


def _trace(spool: Spool, ticks: Ticks, nodes: dict[int, memoryview]) -> GpuTrace:
    trace = GpuTrace()
    tids = _tids(spool)
    for text, numbers in spool.device_work:
        names, n_launches = text["names"], text["launches"] * _LAUNCH
        launches: dict[int, tuple[Launch, bool]] = {}
        for correlation, name, of, begin_ns, took_ns in _rows(numbers[:n_launches], _LAUNCH):
            tid = tids.get(of & _HANDLE_BITS, of)
            launches[correlation] = Launch(tid, begin_ns), _is_one(names[name], "replays")
            if _is_one(names[name], "waits"):
                trace.waits.append(Wait(names[name], tid, begin_ns, begin_ns + took_ns))
        for row in _rows(numbers[n_launches:], _WORK):
            correlation, name, device, stream, begin_ns, took_ns = row
            launch, replays = launches.get(correlation, (None, False))
            called = graph_name(names[name]) if replays else names[name]
            end_ns = begin_ns + took_ns
            trace.work.append(Work(called, device, stream, begin_ns, end_ns, launch))
        trace.windows.append((text["begin_ns"], text["end_ns"]))
    for each in spool.backward_turns:
        node = nodes[each.thread][each.node] if each.node else 0
        trace.pieces.append(Piece(each.tid, ticks.time(each.since), ticks.time(each.until), node))
    return trace


def _rows(numbers: memoryview, size: int) -> Iterator[tuple[int, ...]]:
    return zip(*(numbers[i::size] for i in range(size)), strict=True)


def _is_one(name: str, table: str) -> bool:
    return any(part in name for part in torch.gpu()[table])


def _tids(spool: Spool) -> dict[int, int]:
    """Return the thread's number of each handle; of those with the same one that of the latest."""
    known = {each.handle: each.tid for each in spool.backward_turns}
    for index, handle in spool.thread_handles.items():
        known[handle] = spool.threads[spool.exact_threads[index]].tid
    own = {each.tid for each in spool.threads.values()}
    return {handle: tid for handle, tid in known.items() if handle not in own}
