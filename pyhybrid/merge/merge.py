"""Several profile files as one: what they share is one row, figures stay those of their processes.

Every table goes over whole.  What the schema says refers to a row of another table, or has its
name, gets the number that this row has in the new file; times are those of the first file's clock.
"""

import json
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import count
from typing import Any

from pyhybrid._profile import STACK_MASK
from pyhybrid.assemble import open_profile
from pyhybrid.base.files import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.merge.meta import check_alike, merged_meta, single_facts
from pyhybrid.merge.paths import Part, SharedPaths
from pyhybrid.tables import (
    Frame,
    Meta,
    Module,
    Node,
    RecursiveNode,
    Segment,
    Stack,
    schema,
)
from pyhybrid.tables.database import insert
from pyhybrid.tables.exact_table import recursive_nodes
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Column, Row

# What is made of all files, not copied row by row.
SHARED = (Module, Segment, Frame, Node, Stack, RecursiveNode, Meta)
TIMES = ("start_ns", "stop_ns")  # of `meta`

type _Change = Callable[[Any], Any]


def merge(paths: Sequence[str], output: str) -> None:
    """Write the profile of all these, which may be what killed runs left, as the new file `output`.

    Raises PyhybridError where one cannot be read, or was measured otherwise than the first.
    """
    try:
        with closing(sqlite3.connect(output, isolation_level=None)) as database:
            database.executescript(
                f"PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;{schema.create_all()}"
            )
            database.execute("BEGIN")
            _merge(database, paths)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise PyhybridError(f"cannot merge: {error}") from error


def _merge(database: sqlite3.Connection, paths: Sequence[str]) -> None:
    shared = SharedPaths()
    metas: list[dict[str, Any]] = []
    tables = [row for row in schema.TABLES.values() if row not in SHARED]
    for path in paths:
        with open_profile(path) as profile, damage_in(path):
            if profile.query("PRAGMA user_version") != [(schema.VERSION,)]:
                raise PyhybridError(f"{path}: an older pyhybrid wrote it: it cannot be merged")
            part = Part(shared, profile)
            meta = dict(profile.meta)
            later_ns = _later_ns(metas[0], meta) if metas else 0
            for key in TIMES:
                meta |= {key: meta[key] + later_ns} if key in meta else {}
            if "unsampled_calls" in meta:
                meta["unsampled_calls"] = [part.node[node] for node in meta["unsampled_calls"]]
            metas.append(meta)
            check_alike(metas[0], meta, path)
            changes = _Changes(database, tables, part, later_ns)
            for table in tables:
                _copy(database, profile, table, changes)
            if later_ns:  # what was merged before
                database.execute(_LATER, (later_ns, *TIMES, changes.shift["process"]))
            for (process,) in profile.query("SELECT id FROM process"):
                number = changes.shift["process"] + process
                facts = ((number, *each) for each in single_facts(meta))
                database.executemany("INSERT OR IGNORE INTO process_meta VALUES (?,?,?)", facts)
    _write_shared(database, shared)
    meta = merged_meta(metas)
    rows = [(key, json.dumps(value)) for key, value in sorted(meta.items())]
    database.executemany("INSERT INTO meta VALUES (?,?)", rows)
    told = "(key, value) IN (SELECT key, value FROM meta) OR key NOT IN (SELECT key FROM meta)"
    database.execute(f"DELETE FROM process_meta WHERE {told}")


_LATER = "UPDATE process_meta SET value = value + ? WHERE key IN (?, ?) AND process > ?"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def _later_ns(first: dict[str, Any], meta: dict[str, Any]) -> int:
    """What is added to a file's times to have them by the first one's clock: nothing, unless it is
    of another boot."""
    if meta.get("boot_id") == first.get("boot_id"):
        return 0
    ahead = [int(m.get("start_unix_ns", 0)) - int(m.get("start_ns", 0)) for m in (first, meta)]
    return ahead[1] - ahead[0]


class _Changes:
    """How the values of a file's columns become those of the new one, by what they refer to.

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
        """None: it stays."""
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
