"""The SQLite database behind an opened profile.

No process forks while a thread of ours is in SQLite, which has locks for its memory and caches that
all databases share.  In the child of a fork those that another thread holds stay held for ever, and
whatever uses SQLite there would hang, were it only a Profile that dies (sqlite.org, "How To Corrupt
An SQLite Database File", 2.6).
"""

import json
import os
import sqlite3
import stat
import threading
from array import array
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import batched, chain
from types import TracebackType
from typing import Any, NoReturn, cast

from pyhybrid._columns import ROWS_AT_ONCE, open_database, read_columns, write_columns
from pyhybrid.base.files import one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.tables.schema import APPLICATION_ID, OLDEST, TABLES, VERSION, Row

SQLITE_MAGIC = b"SQLite format 3\0"
CHECKED_BYTES = 32 << 20  # files up to this size are checked whole when opened: at most 0.1 s
MAX_VALUE_BYTES = 1 << 30
STEPS_AT_ONCE = 1_000_000  # of SQLite's machine, between two looks at how many are left
LEAST_STEPS, STEPS_A_BYTE = 100_000_000, 64  # of a query: a second, and ten times what any needs
# What SQLite raises: also where an integer has more than its 63 bits, and where a text is none.
DAMAGED = (sqlite3.Error, OverflowError, UnicodeDecodeError)
_BATCH = 1000  # rows: they are still in the processor's cache when they become columns
FORK_WAIT_S = 1.0  # a fork does not wait longer


class _InSqlite:
    """Hold SQLite's lock: `with in_sqlite:` is around what calls it; a thread may nest it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._forking = threading.local()
        self._abandoned: list[sqlite3.Connection] = []

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        while self._abandoned:
            with suppress(sqlite3.ProgrammingError):  # it could not be opened
                self._abandoned.pop().close()
        self._lock.release()

    def abandon(self, database: sqlite3.Connection) -> None:
        """Close it; where another thread is inside, that one does, or who comes next.

        So it can be called by the garbage collector, anywhere in the program: it never waits.
        """
        self._abandoned.append(database)
        if self._lock.acquire(blocking=False):
            self.__exit__()

    def before_fork(self) -> None:
        self._forking.holds = self._lock.acquire(timeout=FORK_WAIT_S)

    def after_in_parent(self) -> None:
        if getattr(self._forking, "holds", False):
            self._lock.release()

    def after_in_child(self) -> None:
        if getattr(self._forking, "holds", False):
            self._lock.release()
        else:  # who held it is not here
            self._lock = threading.RLock()


in_sqlite = _InSqlite()
os.register_at_fork(
    before=in_sqlite.before_fork,
    after_in_parent=in_sqlite.after_in_parent,
    after_in_child=in_sqlite.after_in_child,
)


class _Steps:
    """Limit the steps of SQLite's machine in a query; it is called after STEPS_AT_ONCE of them."""

    most = left = 1 << 62

    def __call__(self) -> bool:
        self.left -= STEPS_AT_ONCE
        return self.left < 0


class Database(sqlite3.Connection):
    """Any thread may use it, within `in_sqlite`."""

    columns: Any = None  # the same file for _columns.read_columns
    _steps = _Steps()

    @property
    def most_steps(self) -> int:
        """Return how many steps of SQLite's machine a query may take."""
        return self._steps.most

    def bound_steps(self, file_bytes: int) -> None:
        """Let no query take more than what a file of this size can hold: it is interrupted."""
        self._steps = _Steps()
        self._steps.most = LEAST_STEPS + STEPS_A_BYTE * file_bytes
        self.set_progress_handler(self._steps, STEPS_AT_ONCE)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        """Execute as sqlite3's."""
        self._steps.left = self._steps.most
        return super().execute(sql, *arguments)

    def close(self) -> None:
        """Close both."""
        self.columns = None
        super().close()

    def __del__(self, inside: Any = in_sqlite) -> None:
        inside.abandon(self)


class File:
    """Read a profile file, opened when it is first used, or before: see `open_file` and `filled`.

    Every method raises PyhybridError where the file is damaged.
    """

    def __init__(self, path: str, opened: sqlite3.Connection | Callable[[], Database]) -> None:
        """Take `path`, which messages name; of a connection, no Database, no columns are read."""
        self.path = path
        self._opened = opened
        self._selects: dict[type[Row], str] = {}

    @property
    def _database(self) -> Database:
        if not isinstance(self._opened, sqlite3.Connection):
            self._opened = self._opened()
        return cast(Database, self._opened)

    def close(self) -> None:
        """Close it; what was read stays."""
        if isinstance(self._opened, sqlite3.Connection):
            with in_sqlite:
                self._opened.close()

    def rows(self, sql: str, *arguments: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an SQL query."""
        try:
            with in_sqlite:
                cursor = self._database.execute(sql, arguments)
                rows = cursor.fetchmany(_BATCH)
            while rows:
                yield from rows
                with in_sqlite:
                    rows = cursor.fetchmany(_BATCH)
        except DAMAGED as error:
            self.damaged(one_line(error), error)

    def columns(self, sql: str, kinds: str) -> tuple[memoryview, ...]:
        """Return all rows of an SQL query, as columns (_columns.read_columns)."""
        database = self._database
        try:
            with in_sqlite:
                return read_columns(database.columns, sql, kinds, database.most_steps)
        except (OSError, ValueError) as error:
            self.damaged(one_line(error), error)

    def select(self, row: type[Row]) -> str:
        """Return the query for a table's rows, with fields in order; "": the file has no such
        table.

        What stands for columns that older files lack is in it.
        """
        if row not in self._selects:
            self._selects[row] = self._select(row)
        return self._selects[row]

    def _select(self, row: type[Row]) -> str:
        table = row.table
        has = {name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table.name)}
        if not has:
            return ""
        columns = [name if name in has else table.absent.get(name, name) for name in table.stored]
        order = f" ORDER BY {table.ordered_by}" if table.ordered_by else ""
        return f"SELECT {', '.join(columns)} FROM {table.name}{order}"

    def json(self, text: str) -> Any:
        """Return the value of a column of that kind."""
        try:
            return json.loads(text)
        except (ValueError, TypeError) as error:
            self.damaged("broken JSON", error)

    def damaged(self, what: str, error: BaseException | None = None) -> NoReturn:
        """Raise PyhybridError."""
        raise PyhybridError(f"{self.path}: damaged: {what}") from error


def open_file(path: str, is_new: bool = False) -> Database:
    """Open the tables of a profile file: see `Profile.open`.  A new one is not checked whole."""
    if begin_of(path) != SQLITE_MAGIC:
        raise PyhybridError(f"{path}: not a pyhybrid profile")
    name = f"file:{quoted(path)}?mode=ro&immutable=1"

    def check(database: Database) -> None:
        database.columns = open_database(name, False)
        _check(path, database, 0 if is_new else CHECKED_BYTES)

    return filled(path, name, check)


def filled(path: str, name: str, fill: Callable[[Database], None]) -> Database:
    """Return the database that SQLite knows by `name`, once `fill` has filled or checked it.

    Raises PyhybridError, about `path`.
    """
    with in_sqlite:
        try:
            database = Database(name, uri=True, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise PyhybridError(f"cannot read {path}: {one_line(error)}") from error
        try:
            fill(database)
        except DAMAGED as error:
            database.close()
            raise PyhybridError(f"{path}: damaged: {one_line(error)}") from error
        except BaseException:
            database.close()
            raise
    return database


def begin_of(path: str) -> bytes:
    """Return the first bytes of a file: what kind it is.  Raises PyhybridError, also where it is a
    pipe or a device: whoever opens a FIFO would wait for somebody who writes it."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise PyhybridError(f"cannot read {path}: it is no regular file")
            return f.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from error


def quoted(path: str) -> str:
    """Return a path as SQLite's URIs want it."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    if quoted.startswith("/"):
        quoted = "//" + quoted  # no host, also where the path begins with two
    return quoted


def _check(path: str, database: Database, whole_below: int) -> None:
    size = os.path.getsize(path)
    # No damage makes a value longer than its file.
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size, MAX_VALUE_BYTES))
    database.bound_steps(size)
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise PyhybridError(f"{path}: an SQLite database, but not a pyhybrid profile")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if not OLDEST <= version <= VERSION:
        age = "a newer" if version > VERSION else "an older"
        raise PyhybridError(
            f"{path}: schema version {version}, written by {age} pyhybrid "
            f"(this one reads {VERSION})"
        )
    if whole_below:
        _check_tables(path, database)
    if size <= whole_below:
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise PyhybridError(f"{path}: damaged: {one_line(verdict)}")


def _check_tables(path: str, database: Database) -> None:
    """Check that our tables are tables: rows are in the file, and are not worked out.

    The check goes by what SQLite made of the file's schema, whatever is written there.  Other
    tables and views are whoever's: nothing of ours reads them.
    """
    kinds = database.execute("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")
    hidden = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden"
    for name, kind in kinds.fetchall():
        if name in TABLES and kind != "table":
            raise PyhybridError(f"{path}: damaged: {name} is a {kind}, and no table")
        if name in TABLES and database.execute(hidden, (name,)).fetchone():
            raise PyhybridError(f"{path}: damaged: {name} has columns that are worked out")


# How rows come into the tables of a profile file: a few of any values, or many of numbers.

PROCESS = 1  # one spool is one process
_LIMIT = 1 << 63


def clean[Text: (str, str | None)](text: Text) -> Text:
    """Return text as SQLite, and what reads C strings, can hold it: lone surrogates (odd file
    names) and NUL become backslash escapes."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def insert(
    database: sqlite3.Connection,
    table: type[Row],
    rows: Iterable[tuple[Any, ...]],
    process: int = PROCESS,
) -> None:
    """Insert rows with a value for each field that is a column; in the transaction that is open."""
    insert_into, row, texts = _insert_of(table, process)
    if texts:
        rows = (_as_json(each, texts) for each in rows)
    for some in batched(rows, ROWS_AT_ONCE):
        sql = insert_into + ",".join([row] * len(some))
        values = tuple(chain.from_iterable(some))
        try:
            database.execute(sql, values)
        except OverflowError:  # a product of figures that are each possible
            database.execute(sql, tuple(map(_fitting, values)))


@cache
def _insert_of(table: type[Row], process: int) -> tuple[str, str, list[int]]:
    """Return the two parts of the `INSERT`, and where rows have JSON."""
    return (*table.table.insert(process), table.table.of_kind("Json"))


def _as_json(row: tuple[Any, ...], texts: list[int]) -> tuple[Any, ...]:
    values = list(row)
    for at in texts:
        values[at] = json.dumps(values[at])
    return tuple(values)


def _fitting(value: Any) -> Any:
    """Return an integer as a table can hold it: with 63 bits and a sign."""
    return min(max(value, -_LIMIT), _LIMIT - 1) if isinstance(value, int) else value


def _file_of(database: sqlite3.Connection) -> str:
    """Return the path of its file; "": it is in memory."""
    database.text_factory = os.fsdecode
    ((_, _, file),) = database.execute("PRAGMA database_list").fetchall()
    database.text_factory = str
    return str(file)


def insert_columns(
    database: sqlite3.Connection, tables: Iterable[tuple[str, str, Sequence[Buffer]]]
) -> None:
    """Run each `INSERT` for the rows of its columns of numbers; outside any transaction.

    Its two parts are write_columns()'s.
    """
    file = _file_of(database)
    of_file = open_database(file, True) if file else None
    for insert_into, row, columns in tables:
        if of_file is not None:
            write_columns(of_file, insert_into, row, *columns)
        else:
            database.executemany(insert_into + row, zip(*columns, strict=True))


def numbered(tree: Sequence[Buffer]) -> list[Buffer]:
    """Return the columns of a tree's rows, without the root's, after those of their numbers."""
    views = [memoryview(column)[1:] for column in tree]
    return [array("I", range(1, len(views[0]) + 1)), *views]
