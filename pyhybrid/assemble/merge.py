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

from pyhybrid.assemble.merged_facts import check_alike, merged_meta, single_facts
from pyhybrid.assemble.opening import open_profile
from pyhybrid.assemble.shared_paths import Part, SharedPaths
from pyhybrid.damage import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file import schema
from pyhybrid.profile_file.exact_table import recursive_nodes
from pyhybrid.profile_file.profile import Profile
from pyhybrid.spool.layout import STACK_MASK

# What is made of all files, not copied row by row.
SHARED = ("module", "segment", "frame", "node", "stack", "recursive_node", "meta")
TIMES = ("start_ns", "stop_ns")  # of `meta`
POINTS = ("start_ns", "end_ns", "begin_ns", "first_ns", "last_ns", "launch_ns")

type _Change = Callable[[Any], Any]


def merge(paths: Sequence[str], output: str) -> None:
    """Write the profile of all these, which may be what killed runs left, as the new file `output`.

    Raises PyhybridError where one cannot be read, or was measured otherwise than the first.
    """
    try:
        with closing(sqlite3.connect(output, isolation_level=None)) as database:
            database.executescript(f"PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;{schema.TEXT}")
            database.execute("BEGIN")
            _merge(database, paths)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise PyhybridError(f"cannot merge: {error}") from error


def _merge(database: sqlite3.Connection, paths: Sequence[str]) -> None:
    shared = SharedPaths()
    metas: list[dict[str, Any]] = []
    tables = [name for (name,) in database.execute(_TABLES) if name not in SHARED]
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
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_REFERENCES = 'SELECT "table", "from" FROM pragma_foreign_key_list(?)'


def _later_ns(first: dict[str, Any], meta: dict[str, Any]) -> int:
    """What is added to a file's times to have them by the first one's clock: nothing, unless it is
    of another boot."""
    if meta.get("boot_id") == first.get("boot_id"):
        return 0
    ahead = [int(m.get("start_unix_ns", 0)) - int(m.get("start_ns", 0)) for m in (first, meta)]
    return ahead[1] - ahead[0]


class _Changes:
    """How the values of a file's columns become those of the new one.

    `shift`: what is added to the numbers of rows that no other file has, by table.
    """

    def __init__(
        self, database: sqlite3.Connection, tables: list[str], part: Part, later_ns: int
    ) -> None:
        self.shift: dict[str, int] = {}
        for table in tables:
            if ("id",) in database.execute(_COLUMNS, (table,)).fetchall():
                ((last,),) = database.execute(f"SELECT ifnull(max(id), 0) FROM {table}")
                self.shift[table] = last
        self._refers = {
            (table, column): of
            for table in tables
            for of, column in database.execute(_REFERENCES, (table,))
        }
        self._part, self._later_ns = part, later_ns

    def of(self, table: str, column: str) -> _Change | None:
        """None: it stays."""
        part = self._part
        of = table if column == "id" else self._refers.get((table, column), column)
        if of in self.shift:
            return self._shifted(of)
        if of in ("frame", "stack"):
            ids: Any = getattr(part, of)
            return lambda number: number and ids[number]
        if (table, column) == ("event_node", "node"):
            return lambda blob: array("I", map(part.node.__getitem__, array("I", blob))).tobytes()
        if column == "node":
            return part.node.__getitem__
        if column == "place":
            return self._places
        if column in POINTS and self._later_ns:
            return lambda ns: ns and ns + self._later_ns
        return None

    def _shifted(self, table: str) -> _Change:
        by = self.shift[table]
        return lambda number: number and number + by  # 0, null: none

    def _places(self, blob: bytes) -> bytes:
        stacks = self._part.stack
        places = array("I", blob)
        return array(
            "I", (place & ~STACK_MASK | stacks[place & STACK_MASK] for place in places)
        ).tobytes()


def _copy(database: sqlite3.Connection, profile: Profile, table: str, changes: _Changes) -> None:
    known = {name for (name,) in database.execute(_COLUMNS, (table,))}
    columns = [name for (name,) in profile.query(_COLUMNS, table) if name in known]
    if not columns:
        return
    names = ", ".join(columns)
    by_column = [(at, changes.of(table, name)) for at, name in enumerate(columns)]
    rows: Iterable[Sequence[Any]] = profile.query(f"SELECT {names} FROM {table}")
    values = list(zip(*rows, strict=True))
    if not values:
        return
    changed = [map(change, values[at]) if change else values[at] for at, change in by_column]
    # What is told of a function is the same in all files that tell of it.
    once = " OR IGNORE" if table in ("code", "c_function") else ""
    sql = f"INSERT{once} INTO {table} ({names}) VALUES ({','.join('?' * len(columns))})"
    database.executemany(sql, zip(*changed, strict=True))


def _write_shared(database: sqlite3.Connection, shared: SharedPaths) -> None:
    rows: Iterable[tuple[Any, ...]]
    for each in shared.modules:
        row = each.id, each.path, each.build_id, each.base, each.load_ns, each.unload_ns
        database.execute("INSERT INTO module VALUES (?,?,?,?,?,?)", row)
        rows = ((each.id, *segment) for segment in each.segments)
        database.executemany("INSERT INTO segment VALUES (?,?,?,?,?)", rows)
    rows = (
        (
            *(f.id, f.kind, f.name, f.file, f.line),
            *(f.module, f.address, f.size, f.symbol, f.source, f.python_name),
        )
        for f in shared.frames
    )
    database.executemany("INSERT INTO frame VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
    nodes, stacks = shared.nodes, shared.stacks
    rows = zip(count(1), nodes.parent[1:], nodes.frame[1:], strict=False)
    database.executemany("INSERT INTO node VALUES (?,?,?)", rows)
    counted = array("I", (n for (n,) in database.execute("SELECT DISTINCT node FROM exact")))
    recursive = recursive_nodes(nodes, {f.id: f for f in shared.frames}, counted)
    database.executemany("INSERT INTO recursive_node VALUES (?)", zip(recursive))
    columns = (stacks.parent, stacks.node, stacks.address, stacks.offset, stacks.line)
    rows = zip(count(1), *(column[1:] for column in columns), strict=False)
    database.executemany("INSERT INTO stack VALUES (?,?,?,?,?,?)", rows)
