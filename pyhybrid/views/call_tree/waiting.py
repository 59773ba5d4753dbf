"""Which part of a call tree waits: event loops, pools' workers, and what waits for other threads.

Where that is, waiting.toml lists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyhybrid._columns import descend, take
from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.base.pseudo_frames import TASK
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.views.labels import shorten_native

MOST_WAITING = 0.5  # of the time of a line or function; one that waits more comes last

# Kinds of frames.  A frame of native code is as what calls it.
_OTHER, _LOOP, _WAIT, _POOL, _IDLE, _NATIVE, _TASK = range(7)
# States: work, in a loop, below what a loop called, below what is idle, in a pool's own loop.
WORK, LOOP, CALLBACK, IDLE, POOL = range(5)
_STEPS = bytes(
    {
        WORK: {_LOOP: LOOP, _POOL: POOL, _IDLE: IDLE},
        LOOP: {_LOOP: LOOP, _WAIT: LOOP, _POOL: POOL, _OTHER: CALLBACK, _IDLE: CALLBACK},
        CALLBACK: {_LOOP: LOOP, _POOL: POOL},
        IDLE: {_LOOP: LOOP, _POOL: POOL},
        POOL: {_LOOP: LOOP, _OTHER: WORK, _IDLE: IDLE},
    }[state].get(kind, CALLBACK if kind == _TASK else state)  # an event loop runs each task
    for state in range(5)
    for kind in range(256)
)

# Of native code that waits for a lock: its frame, and that of a Python function.
_PYTHON, _LOCK = 1, 2
_LOCK_STEPS = bytes(
    {_PYTHON: 0, _LOCK: 1}.get(kind, state) for state in range(2) for kind in range(256)
)


@made_once
def states_of(profile: Profile) -> bytes:
    """Return the state of each node: WORK, LOOP, CALLBACK, IDLE or POOL."""
    kinds = bytearray(max(profile.frames, default=0) + 1)
    for frame in profile.frames.values():
        kinds[frame.id] = _kind(frame)
    nodes = profile.nodes
    return bytes(descend(nodes.parent, take(kinds, nodes.frame), _STEPS))


def waiting_nodes(profile: Profile) -> bytes:
    """Mark with 1 the nodes that wait for other threads, or for a person; none where the clock does
    not see waits: there their samples are work."""
    if profile.meta.get("clock") != "wall":
        return bytes(len(profile.nodes.parent))
    return states_of(profile).translate(bytes(state == IDLE for state in range(256)))


@made_once
def lock_nodes(profile: Profile) -> bytes:
    """Mark with 1 the nodes in which a thread waits for a lock: of native code, up to the Python
    function that wants it."""
    names, kinds = NamePatterns(_file()["locks"]), bytearray(max(profile.frames, default=0) + 1)
    for frame in profile.frames.values():
        if frame.kind in ("python", "region"):
            kinds[frame.id] = _PYTHON
        elif names.match(shorten_native(frame.name)) or names.match(frame.python_name or ""):
            kinds[frame.id] = _LOCK
    nodes = profile.nodes
    return bytes(descend(nodes.parent, take(kinds, nodes.frame), _LOCK_STEPS))


def _kind(frame: Frame) -> int:
    if frame.kind not in ("python", "region"):
        return _TASK if (frame.kind, frame.symbol) == ("pseudo", TASK) else _NATIVE
    for kind, functions in _of_file("/" + (frame.file or "")):
        if functions.match(frame.name):
            return kind
    return _OTHER


@cache
def _of_file(file: str) -> list[tuple[int, NamePatterns]]:
    """Return the kinds of functions that wait in a file, which few have."""
    table, every = _table()
    return [row[1:] for row in table if row[0].match(file)] if every.match(file) else []


@cache
def _file() -> dict[str, Any]:
    return table_beside(__file__, "waiting")


@cache
def _table() -> tuple[list[tuple[NamePatterns, int, NamePatterns]], NamePatterns]:
    """Return the rows of the table, and the files of all of them."""
    kinds = {"loop": _LOOP, "wait": _WAIT, "pool": _POOL, "idle": _IDLE}
    rows = _file()["where"]
    files = [[f"*/{file}" for file in each["file"]] for each in rows]
    table = [
        (NamePatterns(of_row), kinds[each["kind"]], NamePatterns(each["functions"]))
        for of_row, each in zip(files, rows, strict=True)
    ]
    return table, NamePatterns({file for of_row in files for file in of_row})
