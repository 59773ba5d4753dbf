"""The SQLite database behind an opened profile: a file of ours, or a spool finished in memory."""

import os
import sqlite3
from typing import Any

from pyhybrid.assemble.assemble import assemble
from pyhybrid.assemble.writer import APPLICATION_ID, SCHEMA_VERSION
from pyhybrid.damage import one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.profile_file.fork_guard import in_sqlite
from pyhybrid.spool.layout import MAGIC as SPOOL_MAGIC
from pyhybrid.symbols.resolve import Demangle, Loader

SQLITE_MAGIC = b"SQLite format 3\0"
CHECKED_BYTES = 32 << 20  # files up to this size are checked whole when opened: at most 0.1 s
MAX_VALUE_BYTES = 1 << 30
# What SQLite raises: also where an integer has more than its 63 bits, and where a text is none.
DAMAGED = (sqlite3.Error, OverflowError, UnicodeDecodeError)


class Database(sqlite3.Connection):
    """Any thread may use it, within `in_sqlite`."""

    def __del__(self, inside: Any = in_sqlite) -> None:
        inside.abandon(self)


def open_database(path: str, symbols: tuple[Loader, Demangle] | None) -> Database:
    """The tables of schema.sql, of a profile file or a spool: see `Profile.open`."""
    is_spool = _is_spool(path)
    name = ":memory:" if is_spool else f"file:{_quoted(path)}?mode=ro&immutable=1"
    with in_sqlite:
        try:
            database = Database(
                name, uri=not is_spool, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise PyhybridError(f"cannot read {path}: {one_line(error)}") from error
        try:
            if is_spool:
                assemble(database, path, symbols)
            else:
                _check(path, database)
        except DAMAGED as error:
            database.close()
            raise PyhybridError(f"{path}: damaged: {one_line(error)}") from error
        except BaseException:
            database.close()
            raise
    return database


def _is_spool(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            magic = file.read(16)
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from error
    is_spool = magic.startswith(SPOOL_MAGIC)
    if not is_spool and magic != SQLITE_MAGIC:
        raise PyhybridError(f"{path}: not a pyhybrid profile")
    return is_spool


def _quoted(path: str) -> str:
    """A path as SQLite's URIs want it."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    if quoted.startswith("/"):
        quoted = "//" + quoted  # no host, also where the path begins with two
    return quoted


def _check(path: str, database: Database) -> None:
    size = os.path.getsize(path)
    # No damage makes a value longer than its file.
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size, MAX_VALUE_BYTES))
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise PyhybridError(f"{path}: an SQLite database, but not a pyhybrid profile")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        raise PyhybridError(
            f"{path}: schema version {version}, written by {age} pyhybrid "
            f"(this one reads {SCHEMA_VERSION})"
        )
    if size <= CHECKED_BYTES:
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise PyhybridError(f"{path}: damaged: {one_line(verdict)}")
