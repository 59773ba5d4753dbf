"""The SQLite database behind an opened profile."""

import os
import sqlite3
from collections.abc import Callable
from typing import Any

from pyhybrid._profile import open_database
from pyhybrid.damage import one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file import schema
from pyhybrid.profile_file.fork_guard import in_sqlite

SQLITE_MAGIC = b"SQLite format 3\0"
CHECKED_BYTES = 32 << 20  # files up to this size are checked whole when opened: at most 0.1 s
MAX_VALUE_BYTES = 1 << 30
STEPS_AT_ONCE = 1_000_000  # of SQLite's machine, between two looks at how many are left
LEAST_STEPS, STEPS_A_BYTE = 100_000_000, 64  # of a query: a second, and ten times what any needs
# What SQLite raises: also where an integer has more than its 63 bits, and where a text is none.
DAMAGED = (sqlite3.Error, OverflowError, UnicodeDecodeError)


class _Steps:
    """How many steps of SQLite's machine a query may take; called where it took STEPS_AT_ONCE."""

    most = left = 1 << 62

    def __call__(self) -> bool:
        self.left -= STEPS_AT_ONCE
        return self.left < 0


class Database(sqlite3.Connection):
    """Any thread may use it, within `in_sqlite`."""

    columns: Any = None  # the same file for _profile.read_columns
    _steps = _Steps()

    @property
    def most_steps(self) -> int:
        """Of SQLite's machine, that a query may take."""
        return self._steps.most

    def bound_steps(self, file_bytes: int) -> None:
        """No query takes more than what a file of this size can hold: it is interrupted."""
        self._steps = _Steps()
        self._steps.most = LEAST_STEPS + STEPS_A_BYTE * file_bytes
        self.set_progress_handler(self._steps, STEPS_AT_ONCE)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        """As sqlite3's."""
        self._steps.left = self._steps.most
        return super().execute(sql, *arguments)

    def close(self) -> None:
        """Close both."""
        self.columns = None
        super().close()

    def __del__(self, inside: Any = in_sqlite) -> None:
        inside.abandon(self)


class OpenedLater:
    """What a profile uses of a database that is opened when it is first used."""

    def __init__(self, opened: Callable[[], Database]) -> None:
        self._opened = opened
        self._database: Database | None = None

    def execute(self, sql: str, arguments: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """As of the database."""
        return self._used().execute(sql, arguments)

    @property
    def columns(self) -> Any:
        """As of the database."""
        return self._used().columns

    @property
    def most_steps(self) -> int:
        """As of the database."""
        return self._used().most_steps

    def close(self) -> None:
        """Close what was opened."""
        if self._database:
            self._database.close()

    def _used(self) -> Database:
        if not self._database:
            self._database = self._opened()
        return self._database


def open_file(path: str, is_new: bool = False) -> Database:
    """The tables of a profile file: see `Profile.open`.  One that `is_new` is not checked whole."""
    if begin_of(path) != SQLITE_MAGIC:
        raise PyhybridError(f"{path}: not a pyhybrid profile")
    name = f"file:{quoted(path)}?mode=ro&immutable=1"

    def check(database: Database) -> None:
        database.columns = open_database(name, False)
        _check(path, database, 0 if is_new else CHECKED_BYTES)

    return filled(path, name, check)


def filled(path: str, name: str, fill: Callable[[Database], None]) -> Database:
    """The database that SQLite knows by `name`, once `fill` has filled or checked it.

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
    """The first bytes of a file: what kind it is.  Raises PyhybridError."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from error


def quoted(path: str) -> str:
    """A path as SQLite's URIs want it."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    if quoted.startswith("/"):
        quoted = "//" + quoted  # no host, also where the path begins with two
    return quoted


def _check(path: str, database: Database, whole_below: int) -> None:
    size = os.path.getsize(path)
    # No damage makes a value longer than its file.
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size, MAX_VALUE_BYTES))
    database.bound_steps(size)
    if database.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise PyhybridError(f"{path}: an SQLite database, but not a pyhybrid profile")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if not schema.OLDEST <= version <= schema.VERSION:
        age = "a newer" if version > schema.VERSION else "an older"
        raise PyhybridError(
            f"{path}: schema version {version}, written by {age} pyhybrid "
            f"(this one reads {schema.VERSION})"
        )
    if whole_below:
        _check_tables(path, database)
    if size <= whole_below:
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise PyhybridError(f"{path}: damaged: {one_line(verdict)}")


def _check_tables(path: str, database: Database) -> None:
    """Our tables are tables: what a row of them says is in the file, and is not worked out.

    By what SQLite made of the file's schema, whatever is written there.  Other tables and views are
    whoever's: nothing of ours reads them.
    """
    kinds = database.execute("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")
    hidden = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden"
    for name, kind in kinds.fetchall():
        if name in schema.TABLES and kind != "table":
            raise PyhybridError(f"{path}: damaged: {name} is a {kind}, and no table")
        if name in schema.TABLES and database.execute(hidden, (name,)).fetchone():
            raise PyhybridError(f"{path}: damaged: {name} has columns that are worked out")
