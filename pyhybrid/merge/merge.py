"""Several profile files as one: what they share is one row, figures stay those of their processes.

Every table goes over whole.  What by the schema refers to a row of another table, or has its
name, gets the number that this row has in the new file; times are those of the first file's clock.
One file after the other is read; of those before, what they share is kept, and what each process
recorded of itself.
"""

import json
import os
import sqlite3
from array import array
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import batched
from typing import Any

from pyhybrid._columns import (
    open_database,
    order,
    read_columns,
    restack,
    shared_columns,
    shift,
    take,
    trim_memory,
)
from pyhybrid.assemble import open_profile
from pyhybrid.base.files import damage_in, one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.merge import Facts, check_alike
from pyhybrid.merge.shared_paths import Part, SharedPaths
from pyhybrid.spool import MAGIC
from pyhybrid.tables import (
    Exact,
    Frame,
    Meta,
    Module,
    Node,
    Nodes,
    ProcessMeta,
    RecursiveNode,
    Segment,
    Stack,
    schema,
)
from pyhybrid.tables.database import (
    DAMAGED,
    File,
    begin_of,
    filled,
    insert,
    insert_columns,
    numbered,
)
from pyhybrid.tables.exact_table import recursive_nodes
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Column, Row

# What is made of all files, not copied row by row.
SHARED = (Module, Segment, Frame, Node, Stack, RecursiveNode, Meta, ProcessMeta)
TIMES = ("start_ns", "stop_ns")  # of `meta`
ROWS_READ = 1000  # at once, of values of any kind
LARGE_BYTES = 1 << 20
ROWS_KEPT = 1 << 16  # of numbers, before they are written: each write opens the file

type _Known = dict[tuple[Any, int, int | None], str]
type _Change = Callable[[Any], Any]


def merge(paths: Sequence[str], output: str, failed: list[tuple[str, str]] | None = None) -> None:
    """Write the profile of all these, which may be what killed runs left, as the new file `output`.

    Raises PyhybridError where one cannot be read, or was measured otherwise than the first.  With
    `failed` that is so of the first one alone: others are left out, and put there with the reason.
    What is damaged in one whose rows are being copied already raises it in any case.
    """
    try:
        with closing(sqlite3.connect(output, isolation_level=None)) as database:
            database.executescript(
                f"PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;{schema.create_all()}"
            )
            database.execute("BEGIN")
            _Merged(database, output, failed).add_all(paths)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise PyhybridError(f"cannot merge: {error}") from error


def _give_back(path: str) -> None:
    """Return the memory to the system that the reading of a large file has left behind."""
    with suppress(OSError):
        if os.path.getsize(path) >= LARGE_BYTES:
            trim_memory()


def _make_tables(database: sqlite3.Connection) -> None:
    database.executescript(schema.create_all())


class _Spools:
    """Open spools, one after the other: names are looked up once for all, and the figures of each
    go into the same database in memory."""

    def __init__(self, tables: Sequence[type[Row]]) -> None:
        self._tables = tables
        has = (f"EXISTS (SELECT 1 FROM {row.table.name})" for row in tables)
        self._which_have_rows = f"SELECT {', '.join(has)}"
        self._names: Any = None  # SharedNames: who merges files does not import it
        self._figures: sqlite3.Connection | None = None
        self._file: File | None = None  # that database, as profiles have it

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[Profile, Sequence[type[Row]]]]:
        """Open a spool as a profile, for the block, with those tables in the database that have
        rows.  Raises PyhybridError."""
        from pyhybrid.assemble.assemble import assembled_of, read_spool
        from pyhybrid.symbols.shared_names import SharedNames

        self._names = names = self._names or SharedNames()
        if self._figures is None or self._file is None:
            self._figures = filled(path, ":memory:", _make_tables)
            self._file = File(path, self._figures)
        recorded = read_spool(path)
        _give_back(path)  # what it is read into first: looking names up takes as much
        made = assembled_of(recorded, names.symbols(recorded.spool), names.kernel(recorded.spool))
        del recorded
        try:
            try:
                made.write_figures(self._figures)
            except DAMAGED as error:
                raise PyhybridError(f"{path}: damaged: {one_line(error)}") from error
            parts = made.parts
            del made  # the spool
            self._file.path = path
            yield Profile(path, self._file, **parts), self._filled()
        finally:
            if self._figures.in_transaction:
                self._figures.execute("ROLLBACK")
            for row in self._filled():
                self._figures.execute(f"DELETE FROM {row.table.name}")

    def _filled(self) -> list[type[Row]]:
        assert self._figures is not None
        ((*has,),) = self._figures.execute(self._which_have_rows)
        return [row for row, rows in zip(self._tables, has, strict=True) if rows]


class _Merged:
    """Write the new file."""

    def __init__(
        self, database: sqlite3.Connection, path: str, failed: list[tuple[str, str]] | None
    ) -> None:
        """Take the new file's `database`, at `path`, which has tables without rows, and a
        transaction that is open."""
        self._database, self._path, self._failed = database, path, failed
        self._copied = [row for row in schema.TABLES.values() if row not in SHARED]
        self._spools, self._shared, self._facts = _Spools(self._copied), SharedPaths(), Facts()
        self._known: _Known = {}
        self._kept: dict[type[Row], list[array[int]]] = {}  # columns that are not written yet

    def add_all(self, paths: Sequence[str]) -> None:
        """Write what all of these have."""
        for path in paths:
            self._add(path)
            _give_back(path)
        self._write_kept()
        self._write_shared()
        meta = self._facts.merged()
        if running := meta.get("still_running"):  # when the first was made: some may be here now
            there = {pid for (pid,) in self._database.execute("SELECT pid FROM process")}
            meta["still_running"] = [pid for pid in running if pid not in there]
        insert(self._database, Meta, sorted(meta.items()))
        rows = self._facts.rows(meta)
        self._database.executemany("INSERT INTO process_meta VALUES (?,?,?)", rows)

    def _add(self, path: str) -> None:
        """Write what one of them has; of it, nothing stays in memory but what is shared."""
        with ExitStack() as stack:
            try:
                columns: dict[str, set[str]] | None = None  # of a spool: all
                tables: Sequence[type[Row]] = self._copied
                if begin_of(path).startswith(MAGIC):
                    profile, tables = stack.enter_context(self._spools.open(path))
                else:
                    profile = stack.enter_context(open_profile(path))
                    columns = _columns_of(profile)
                with damage_in(path):
                    later_ns = self._check(profile)
                    part = Part(self._shared, profile)
            except PyhybridError as error:
                if self._failed is None or not self._facts.metas:
                    raise
                self._failed.append((path, str(error)))
                return
            with damage_in(path):
                self._copy_all(profile, part, later_ns, tables, columns)

    def _check(self, profile: Profile) -> int:
        """Raise PyhybridError where this one cannot be merged with those before; return what is
        added to its times."""
        if profile.query("PRAGMA user_version") != [(schema.VERSION,)]:
            path = profile.path
            raise PyhybridError(f"{path}: an older pyhybrid wrote it: it cannot be merged")
        first = self._facts.metas[0] if self._facts.metas else profile.meta
        check_alike(first, profile.meta, profile.path)
        _check_new(profile, self._known)
        return _later_ns(first, profile.meta)

    def _copy_all(
        self,
        profile: Profile,
        part: Part,
        later_ns: int,
        tables: Sequence[type[Row]],
        columns: dict[str, set[str]] | None,
    ) -> None:
        """Write these tables; `columns`: those that the file has of each, None: all."""
        changes = _Changes(self._database, self._copied, part, later_ns)
        self._keep(Exact, changes.of_columns(Exact, _exact_columns(profile)))
        for row in tables:
            there = columns and columns.get(row.table.name, set())
            has = [c for c in row.table.columns if there is None or c.name in there]
            if row is Exact or not has:
                continue
            if columns and has == [*row.table.columns] and changes.are_plain(row):
                self._keep(row, changes.of_columns(row, profile.columns(row)))
            else:
                self._copy(profile, row, has, changes)
        by = changes.shift["process"]
        meta = dict(profile.meta)
        for key in TIMES:
            meta |= {key: meta[key] + later_ns} if key in meta else {}
        if "unsampled_calls" in meta:
            meta["unsampled_calls"] = [part.node[node] for node in meta["unsampled_calls"]]
        known = profile.query("SELECT process, key, value FROM process_meta")
        times = [(by + n, k, str(int(v) + later_ns) if k in TIMES else v) for n, k, v in known]
        self._facts.add(meta, [by + process for process in profile.processes], times)

    def _copy(
        self, profile: Profile, row: type[Row], columns: list[Column], changes: "_Changes"
    ) -> None:
        """Copy the rows of a table, of which the file has these columns."""
        names = ", ".join(column.name for column in columns)
        rows = profile.rows(f"SELECT {names} FROM {row.table.name}")
        change: list[_Change | None] = []
        for some in batched(rows, ROWS_READ):
            change = change or [changes.of(column) for column in columns]
            changed = (
                map(each, values) if each else values
                for each, values in zip(change, zip(*some, strict=True), strict=True)
            )
            # What is known of a function is the same in all files that know of it.
            once = " OR IGNORE" if row.table.describes else ""
            parameters = ",".join("?" * len(columns))
            sql = f"INSERT{once} INTO {row.table.name} ({names}) VALUES ({parameters})"
            self._database.executemany(sql, zip(*changed, strict=True))

    def _keep(self, row: type[Row], columns: Sequence[memoryview]) -> None:
        """Add rows of numbers to those that are written by and by."""
        if not len(columns[0]):
            return
        kept = self._kept.setdefault(row, [array(kind) for kind in row.table.kinds])
        for column, values in zip(kept, columns, strict=True):
            column.frombytes(values.cast("B"))
        if len(kept[0]) >= ROWS_KEPT:
            self._write_kept()

    def _write_kept(self) -> None:
        kept = ((*row.table.insert_columns, columns) for row, columns in self._kept.items())
        self._write_columns(kept)
        self._kept.clear()

    def _write_columns(self, tables: Iterable[tuple[str, str, Sequence[Buffer]]]) -> None:
        self._database.execute("COMMIT")
        insert_columns(self._database, tables)
        self._database.execute("BEGIN")

    def _write_shared(self) -> None:
        shared, database = self._shared, self._database
        n_stored = len(Module.table.stored)
        insert(database, Module, (row[:n_stored] for row in shared.modules))
        for each in shared.modules:
            insert(database, Segment, ((each.id, *segment) for segment in each.segments))
        n_stored = len(Frame.table.stored)
        insert(database, Frame, (row[:n_stored] for row in shared.frames))
        parent, label = shared_columns(shared.nodes)
        self._write_columns(
            (
                (*Node.table.insert_columns, numbered((parent, label))),
                (*Stack.table.insert_columns, numbered(shared_columns(shared.stacks))),
            )
        )
        counted = read_columns(open_database(self._path, False), _COUNTED, "I", 1 << 62)
        nodes = Nodes(array("I", parent), array("I", label))
        recursive = recursive_nodes(nodes, {f.id: f for f in shared.frames}, *counted)
        insert(database, RecursiveNode, zip(recursive))


_COUNTED = "SELECT node FROM exact"
_ALL_COLUMNS = (
    "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
)


def _columns_of(profile: Profile) -> dict[str, set[str]]:
    """Return which columns the file has, by table."""
    columns: dict[str, set[str]] = {}
    for table, column in profile.rows(_ALL_COLUMNS):
        columns.setdefault(table, set()).add(column)
    return columns


def _exact_columns(profile: Profile) -> list[memoryview]:
    """Return the rows of `exact`, with their process."""
    thread, *others = (memoryview(column) for column in profile.exact.columns)
    process_of = array("I", bytes(4 * (max(profile.threads, default=0) + 1)))
    for each in profile.threads.values():
        process_of[each.id] = each.process
    return [take(process_of, thread), thread, *others]


def _check_new(profile: Profile, known: _Known) -> None:
    """Raise PyhybridError where a process is in one of the files before: a copy of one of them.

    `known` are the files, by the processes' boot, id and begin, which are those of this file from
    here on, too.
    """
    sql = "SELECT process, value FROM process_meta WHERE key = 'boot_id'"
    boots = {process: json.loads(value) for process, value in profile.rows(sql)}
    for process in profile.processes.values():
        boot = boots.get(process.id, profile.meta.get("boot_id"))
        before = known.setdefault((boot, process.pid, process.start_ns), profile.path)
        if before != profile.path:
            raise PyhybridError(
                f"{profile.path}: has the run of process {process.pid} that {before} has: it would "
                "count twice"
            )


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
        self,
        database: sqlite3.Connection,
        tables: Sequence[type[Row]],
        part: Part,
        later_ns: int,
    ) -> None:
        self.shift: dict[str, int] = {}
        for row in tables:
            name = row.table.name
            if row.table.columns[0].kind == "Id":
                ((last,),) = database.execute(f"SELECT ifnull(max(id), 0) FROM {name}")
                self.shift[name] = last
        self._part, self._later_ns = part, later_ns

    def are_plain(self, row: type[Row]) -> bool:
        """Can of_columns() map the table?"""
        return row.table.is_numbers and not any(
            (column.kind == "Time" and self._later_ns)
            or (column.refers and (column.may_be_null or not column.kind.endswith("Id")))
            or column.kind == "Id"
            for column in row.table.columns
        )

    def of_columns(self, row: type[Row], columns: Sequence[memoryview]) -> list[memoryview]:
        """Map a table's columns of numbers; rows with a key are put in its order."""
        changed = []
        for column, values in zip(row.table.columns, columns, strict=True):
            to = column.refers
            if to in self.shift:
                values = shift(values, self.shift[to])
            elif to:
                values = take(getattr(self._part, to), values)
            changed.append(values)
        names = [column.name for column in row.table.columns]
        if row.table.key[:3] == ("process", "thread", "node"):  # nodes have another order now
            rows = order(changed[names.index("thread")], changed[names.index("node")])
            changed = [take(values, rows) for values in changed]
        return changed

    def of(self, column: Column) -> _Change | None:
        """Return how the column's values change; None: it stays."""
        part, to = self._part, column.refers
        if column.kind == "Time":
            return self._later if self._later_ns else None
        if column.kind == "NodeIds":
            return lambda blob: bytes(take(part.node, memoryview(blob).cast("I")))
        if column.kind == "Places":
            return lambda blob: bytes(restack(memoryview(blob).cast("I"), part.stack))
        if to is None:
            return None
        if to in self.shift:
            return self._shifted(self.shift[to])
        ids: Any = getattr(part, to)
        return lambda number: number and ids[number]

    def _later(self, ns: int | None) -> int | None:
        return ns and ns + self._later_ns

    def _shifted(self, by: int) -> _Change:
        return lambda number: number and number + by  # 0, null: none
