"""Several profile files as one: what they share is one row, figures stay those of their processes.

Every table goes over whole.  What by the schema refers to a row of another table, or has its
name, gets the number that this row has in the new file; times are those of the first file's clock.
"""

import json
import sqlite3
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from typing import Any

from pyhybrid._columns import STACK_MASK
from pyhybrid.assemble import open_profile
from pyhybrid.base.files import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.merge import IDENTITY, check_alike, merged_meta, single_facts
from pyhybrid.tables import (
    Frame,
    Meta,
    Module,
    Node,
    Nodes,
    ProcessMeta,
    RecursiveNode,
    Segment,
    Stack,
    Stacks,
    schema,
)
from pyhybrid.tables.database import insert
from pyhybrid.tables.exact_table import recursive_nodes
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Column, Row

# What several profiles have in common, once: modules, functions, call paths.
#
# Each profile (`Part`) yields its rows in turn, and learns the numbers that they have in what is
# made of all.  Two rows of one profile never become one, so sums of figures stay what they were.
#
# Where a module was loaded differs by process: addresses in it become those of the first process
# that had it.  A module that only a later one had, and that would lie where another one does, is
# moved.

ROOM = 1 << 44  # from here on up no process has anything: programs are further up, or far below
PAGE = 1 << 21

type _Span = tuple[int, int]


class SharedPaths:
    """Hold the rows of all profiles so far, in the order of their ids, from 1 on."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.frames: list[Frame] = []
        self.nodes = Nodes(array("I", [0]), array("I", [0]))
        self.stacks = Stacks([0], [0], [0], [0], [0])
        self.module_ids: dict[Hashable, int] = {}
        self.frame_ids: dict[Hashable, int] = {}
        self.node_ids: dict[int, int] = {}
        self.stack_ids: dict[Hashable, int] = {}
        self._spans: list[_Span] = []
        self._room = ROOM

    def place(self, spans: list[_Span]) -> int:
        """Return by how much a module with these addresses is moved."""
        if not spans:
            return 0
        first, end = min(spans)[0], max(stop for _, stop in spans)
        moved = 0
        if any(begin < end and first < stop for begin, stop in self._spans):
            moved = self._room - first // PAGE * PAGE
            self._room += (end - first) // PAGE * PAGE + 2 * PAGE
        self._spans.append((first + moved, end + moved))
        return moved


class Part:
    """Map one profile's modules, frames, nodes and stacks to their numbers in what is shared."""

    def __init__(self, shared: SharedPaths, profile: Profile) -> None:
        self._shared, self._profile = shared, profile
        self.module = {0: 0} | dict(self._modules())
        self.frame = {0: 0} | dict(self._frames())
        self.node = self._nodes()
        self.stack = self._stacks()

    def _modules(self) -> Iterator[tuple[int, int]]:
        shared = self._shared
        loads: Counter[Hashable] = Counter()
        self._moved: dict[int, int] = {}
        self._begins: list[tuple[int, int, int]] = []  # address, its end, module
        for module in self._profile.modules.values():
            what = module.path, module.build_id
            loads[what] += 1
            key = (*what, loads[what], tuple(s[1:] for s in module.segments))
            known = shared.module_ids.get(key)
            spans = [(start, start + size) for start, size, *_ in module.segments]
            if known is None:
                by = shared.place(spans)
                segments = [
                    (start + by, size, offset, flags)
                    for start, size, offset, flags in module.segments
                ]
                known = shared.module_ids[key] = len(shared.modules) + 1
                moved = module._replace(id=known, base=module.base + by, segments=segments)
                shared.modules.append(moved)
            else:
                shared.modules[known - 1] = _live_longer(shared.modules[known - 1], module)
            self._moved[module.id] = shared.modules[known - 1].base - module.base
            self._begins += [(*span, module.id) for span in spans]
            yield module.id, known
        self._begins.sort()

    def _frames(self) -> Iterator[tuple[int, int]]:
        shared = self._shared
        taken: set[int] = set()
        for frame in self._profile.frames.values():
            row = frame._replace(module=frame.module and self.module[frame.module])
            key = _what(row)
            known = shared.frame_ids.get(key)
            if known is None or known in taken:
                known = shared.frame_ids[key] = len(shared.frames) + 1
                shared.frames.append(row._replace(id=known))
            elif row.python_name and not shared.frames[known - 1].python_name:
                shared.frames[known - 1] = row._replace(id=known)
            taken.add(known)
            yield frame.id, known

    def _nodes(self) -> "array[int]":
        ids, rows, nodes = self._shared.node_ids, self._shared.nodes, self._profile.nodes
        found = array("I", [0])
        for parent, frame in zip(nodes.parent[1:], nodes.frame[1:], strict=True):
            parent, frame = found[parent], self.frame[frame]
            known = ids.setdefault(parent << 32 | frame, len(rows.parent))
            if known == len(rows.parent):
                rows.parent.append(parent)
                rows.frame.append(frame)
            found.append(known)
        return found

    def _stacks(self) -> "array[int]":
        ids, rows, stacks = self._shared.stack_ids, self._shared.stacks, self._profile.stacks
        taken: set[int] = set()
        found = array("I", [0])
        each = zip(*stacks, strict=True)
        next(each)
        for parent, node, address, offset, line in each:
            frame = self._profile.frames[self._profile.nodes.frame[node]]
            if address is not None and frame.module:
                address += self._moved[self._module_at(address, frame.module)]
            row = found[parent], self.node[node], address, offset, line
            known = ids.get(row)
            if known is None or known in taken:
                known = ids[row] = len(rows.parent)
                for column, value in zip(rows, row, strict=True):
                    column.append(value)
            taken.add(known)
            found.append(known)
        if len(rows.parent) > STACK_MASK:
            raise PyhybridError("too many call paths for one profile")
        return found

    def _module_at(self, address: int, usual: int) -> int:
        """Return the module that is there; `usual` is one of those that may be: a library can be
        loaded twice."""
        at = bisect_right(self._begins, (address, 1 << 64, 0)) - 1
        while at >= 0 and self._begins[at][0] <= address < self._begins[at][1]:
            module = self._begins[at][2]
            if self._profile.modules[module].path == self._profile.modules[usual].path:
                return module
            at -= 1
        return usual


def _live_longer(module: Module, other: Module) -> Module:
    """Return the time in which either of two loads of one was there."""
    ends = [end for end in (module.unload_ns, other.unload_ns) if end is not None]
    return module._replace(
        load_ns=min(module.load_ns, other.load_ns), unload_ns=max(ends) if len(ends) == 2 else None
    )


def _what(frame: Frame) -> Hashable:
    """Return what makes a function one (schema.sql, `frame`)."""
    if frame.kind == "python":
        return frame.name, frame.file, frame.line
    if frame.module:
        return frame.module, frame.address
    return (
        *(frame.kind, frame.name, frame.file, frame.line, frame.address, frame.size),
        *(frame.symbol, frame.source),
    )


# What is made of all files, not copied row by row.
SHARED = (Module, Segment, Frame, Node, Stack, RecursiveNode, Meta)
TIMES = ("start_ns", "stop_ns")  # of `meta`

type _Known = dict[tuple[Any, int, int | None], str]
type _Change = Callable[[Any], Any]


def merge(paths: Sequence[str], output: str, failed: list[tuple[str, str]] | None = None) -> None:
    """Write the profile of all these, which may be what killed runs left, as the new file `output`.

    Raises PyhybridError where one cannot be read, or was measured otherwise than the first; where
    `failed` is given, only for the first one: the others are left out, and why is put there.
    """
    try:
        with closing(sqlite3.connect(output, isolation_level=None)) as database:
            database.executescript(
                f"PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;{schema.create_all()}"
            )
            database.execute("BEGIN")
            _merge(database, paths, failed)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise PyhybridError(f"cannot merge: {error}") from error


def _merge(
    database: sqlite3.Connection, paths: Sequence[str], failed: list[tuple[str, str]] | None
) -> None:
    shared = SharedPaths()
    metas: list[dict[str, Any]] = []
    known: _Known = {}
    tables = [row for row in schema.TABLES.values() if row not in SHARED]
    for path in paths:
        try:
            with open_profile(path) as profile, damage_in(path):
                _check(profile, path, metas, known)
                _add(database, profile, shared, tables, metas)
        except PyhybridError as error:
            if failed is None or not metas:
                raise
            failed.append((path, str(error)))
    _write_shared(database, shared)
    meta = merged_meta(metas)
    rows = [(key, json.dumps(value)) for key, value in sorted(meta.items())]
    database.executemany("INSERT INTO meta VALUES (?,?)", rows)
    database.execute(
        "DELETE FROM process_meta WHERE (key, value) IN (SELECT key, value FROM meta)"
        "OR key NOT IN (SELECT key FROM meta) AND key NOT IN"
        f"({','.join('?' * len(IDENTITY))})",
        IDENTITY,
    )


def _check(profile: Profile, path: str, metas: list[dict[str, Any]], known: _Known) -> None:
    """Raise PyhybridError where it cannot be merged with those of `metas`."""
    if profile.query("PRAGMA user_version") != [(schema.VERSION,)]:
        raise PyhybridError(f"{path}: an older pyhybrid wrote it: it cannot be merged")
    if metas:
        check_alike(metas[0], profile.meta, path)
    _check_new(profile, path, known)


def _add(
    database: sqlite3.Connection,
    profile: Profile,
    shared: SharedPaths,
    tables: list[type[Row]],
    metas: list[dict[str, Any]],
) -> None:
    part = Part(shared, profile)
    meta = dict(profile.meta)
    later_ns = _later_ns(metas[0], meta) if metas else 0
    for key in TIMES:
        meta |= {key: meta[key] + later_ns} if key in meta else {}
    if "unsampled_calls" in meta:
        meta["unsampled_calls"] = [part.node[node] for node in meta["unsampled_calls"]]
    metas.append(meta)
    changes = _Changes(database, tables, part, later_ns)
    for table in tables:
        _copy(database, profile, table, changes)
    if later_ns:  # what was merged before
        database.execute(_LATER, (later_ns, *TIMES, changes.shift["process"]))
    for (process,) in profile.query("SELECT id FROM process"):
        number = changes.shift["process"] + process
        facts = ((number, *each) for each in single_facts(meta))
        database.executemany("INSERT OR IGNORE INTO process_meta VALUES (?,?,?)", facts)


def _check_new(profile: Profile, path: str, known: _Known) -> None:
    """Raise PyhybridError where a process is in one of the files before: a copy of one of them.

    `known` are the files, by the processes' boot, id and begin, which are those of this file from
    here on, too.
    """
    boots = {each.process: each.value for each in profile[ProcessMeta] if each.key == "boot_id"}
    for process in profile.processes.values():
        boot = boots.get(process.id, profile.meta.get("boot_id"))
        before = known.setdefault((boot, process.pid, process.start_ns), path)
        if before != path:
            raise PyhybridError(
                f"{path}: has the run of process {process.pid} that {before} has: it would count "
                "twice"
            )


_LATER = "UPDATE process_meta SET value = value + ? WHERE key IN (?, ?) AND process > ?"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def _later_ns(first: dict[str, Any], meta: dict[str, Any]) -> int:
    """Return what is added to a file's times to have them by the first one's clock: nothing, unless
    it is of another boot."""
    if meta.get("boot_id") == first.get("boot_id"):
        return 0
    ahead = [int(m.get("start_unix_ns", 0)) - int(m.get("start_ns", 0)) for m in (first, meta)]
    return ahead[1] - ahead[0]


class _Changes:
    """Map the values of a file's columns to those of the new one, by what they refer to.

    `shift`: what is added to the numbers of rows that no other file has, by table.
    """

    def __init__(
        self, database: sqlite3.Connection, tables: list[type[Row]], part: Part, later_ns: int
    ) -> None:
        self.shift: dict[str, int] = {}
        for row in tables:
            name = row.table.name
            if row.table.columns[0].kind == "Id":
                ((last,),) = database.execute(f"SELECT ifnull(max(id), 0) FROM {name}")
                self.shift[name] = last
        self._part, self._later_ns = part, later_ns

    def of(self, column: Column) -> _Change | None:
        """Return how the column's values change; None: it stays."""
        part, to = self._part, column.refers
        if column.kind == "Time":
            return self._later if self._later_ns else None
        if column.kind == "NodeIds":
            return lambda blob: array("I", map(part.node.__getitem__, array("I", blob))).tobytes()
        if column.kind == "Places":
            return self._places
        if to is None:
            return None
        if to in self.shift:
            return self._shifted(to)
        ids: Any = getattr(part, to)
        return lambda number: number and ids[number]

    def _later(self, ns: int | None) -> int | None:
        return ns and ns + self._later_ns

    def _shifted(self, table: str) -> _Change:
        by = self.shift[table]
        return lambda number: number and number + by  # 0, null: none

    def _places(self, blob: bytes) -> bytes:
        stacks = self._part.stack
        places = array("I", blob)
        return array(
            "I", (place & ~STACK_MASK | stacks[place & STACK_MASK] for place in places)
        ).tobytes()


def _copy(
    database: sqlite3.Connection, profile: Profile, row: type[Row], changes: _Changes
) -> None:
    table = row.table
    has = {name for (name,) in profile.query(_COLUMNS, table.name)}
    columns = [column for column in table.columns if column.name in has]
    if not columns:
        return
    names = ", ".join(column.name for column in columns)
    rows: Iterable[Sequence[Any]] = profile.query(f"SELECT {names} FROM {table.name}")
    values = list(zip(*rows, strict=True))
    if not values:
        return
    changed = [
        map(change, column) if (change := changes.of(of)) else column
        for of, column in zip(columns, values, strict=True)
    ]
    # What is known of a function is the same in all files that know of it.
    once = " OR IGNORE" if table.describes else ""
    parameters = ",".join("?" * len(columns))
    sql = f"INSERT{once} INTO {table.name} ({names}) VALUES ({parameters})"
    database.executemany(sql, zip(*changed, strict=True))


def _write_shared(database: sqlite3.Connection, shared: SharedPaths) -> None:
    n_stored = len(Module.table.stored)
    insert(database, Module, (row[:n_stored] for row in shared.modules))
    for each in shared.modules:
        insert(database, Segment, ((each.id, *segment) for segment in each.segments))
    n_stored = len(Frame.table.stored)
    insert(database, Frame, (row[:n_stored] for row in shared.frames))
    nodes, stacks = shared.nodes, shared.stacks
    insert(database, Node, zip(count(1), *(column[1:] for column in nodes), strict=False))
    counted = array("I", (n for (n,) in database.execute("SELECT DISTINCT node FROM exact")))
    recursive = recursive_nodes(nodes, {f.id: f for f in shared.frames}, counted)
    insert(database, RecursiveNode, zip(recursive))
    insert(database, Stack, zip(count(1), *(column[1:] for column in stacks), strict=False))
