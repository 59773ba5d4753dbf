"""A folder of ranks: profiles, and Parquet files of their tables, written once and whole, which
DuckDB reads.

`DIR/<table>/<host>-<pid>-<start>.parquet` is a file for each table and profile.  What lies in the
folder as a profile alone is collected by whoever reads it.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from pyhybrid.assemble import open_profile
from pyhybrid.assemble.writer import Made
from pyhybrid.base.files import one_line, text_beside
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.output_lock import PART, PROFILE, RANKS
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import replacing
from pyhybrid.ranks.tables import SCHEMA, TABLES, Rows, rows_of
from pyhybrid.tables.profile import Profile

SUFFIX = ".parquet"
COMPACTED = "compacted"  # the name of the files that have all rows of a folder
ROW_GROUP = 122_880
_COLLECTED = ".collected"  # behind a profile's name: a file with that of its tables' files
_UNSAFE = re.compile(r"[^\w.-]")


def connect(threads: int = 0) -> Any:
    """Return a connection of DuckDB's, in this process; 0 threads: one a processor.

    Raises PyhybridError where it is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise PyhybridError(
            f"pyhybrid ranks needs DuckDB: pip install 'pyhybrid[ranks]' ({error})"
        ) from None
    connection = duckdb.connect(config={"threads": threads or len(os.sched_getaffinity(0))})
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def file_name(profile: Profile) -> str:
    """Return `<host>-<pid>-<start>`, what the files of a profile's tables are named by."""
    host = _UNSAFE.sub("_", str(profile.meta.get("hostname") or "host"))
    first = profile.process
    return f"{host}-{first.pid}-{first.start_ns or 0}"


def write(connection: Any, folder: str, name: str, rows: Rows) -> None:
    """Write a file for each table that has rows; that of processes, by which the others are known
    to be there, is the last.  Raises PyhybridError."""
    for table in sorted(TABLES, key="process".__eq__):
        if not rows[table]:
            continue
        os.makedirs(os.path.join(folder, table), exist_ok=True)
        path = os.path.join(folder, table, name + SUFFIX)
        columns = {k: v for k, v in TABLES[table].columns.items() if k != "schema"}
        with (
            replacing(path) as temporary,
            tempfile.NamedTemporaryFile(
                "w", suffix=".csv", newline="", encoding="utf-8", errors="backslashreplace"
            ) as text,
        ):
            lines = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_STRINGS)
            lines.writerows(rows[table])
            text.flush()
            types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
            sql = (
                f"COPY (SELECT {SCHEMA}::SMALLINT AS schema, * FROM read_csv({quoted(text.name)}, "
                f"header = false, quote = '\"', escape = '\"', delim = ',', auto_detect = false, "
                f"allow_quoted_nulls = false, parallel = false, max_line_size = 10000000, "
                f"columns = {{{types}}})) "
                f"TO {quoted(temporary)} (FORMAT parquet, COMPRESSION zstd, "
                f"ROW_GROUP_SIZE {ROW_GROUP})"
            )
            _run(connection, sql)


def _run(connection: Any, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of a query's columns, and its rows.  Raises PyhybridError, in one line."""
    import duckdb

    try:
        result = connection.execute(sql)
        return [each[0] for each in result.description or ()], result.fetchall()
    except duckdb.Error as error:
        raise PyhybridError(f"the query failed: {one_line(error)}") from None


def write_beside(path: str, parts: Made | None = None) -> None:
    """Write the tables of a rank's profile into its folder, where DuckDB is installed: whoever asks
    need not do it then.  `parts` are what is known of it.  What fails is a line on stderr."""
    folder = os.path.dirname(path)
    try:
        _see_linked_folders()
        if find_spec("duckdb") is None:
            return
        with Profile.open(path, **parts or {}) as profile:
            name = file_name(profile)
            write(connect(threads=1), folder, name, rows_of(profile, os.path.basename(path)))
        _note_collected(folder, path, name)
    except Exception as error:  # of DuckDB's, too: the profile is there, from which it can be done
        say(f"{folder}: no tables of ranks are written yet: {one_line(error)}")


def _see_linked_folders() -> None:
    """Make what `.pth` files beside this package name importable, which the finishing process does
    not: it runs without `site`."""
    beside = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for name in sorted(os.listdir(beside)):
        if name.endswith(".pth") and find_spec("duckdb") is None:
            with suppress(OSError, ValueError), open(os.path.join(beside, name)) as file:
                lines = (os.path.join(beside, line.rstrip()) for line in file)
                sys.path += [each for each in lines if os.path.isdir(each)]


def quoted(value: str) -> str:
    """Return it as SQL writes text."""
    return "'" + value.replace("'", "''") + "'"


class Engine(ABC):
    """Hold a folder of ranks that is asked with SQL, by one engine or another.

    `problems`: one line each, of what could not be read; the rest is answered.
    """

    folder: str
    problems: list[str]

    @abstractmethod
    def named(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of a query's columns, and its rows.  Raises PyhybridError, in one
        line."""

    @abstractmethod
    def keep(self, table: str, of: str, processes: Iterable[int]) -> None:
        """Keep rows of some processes as a table of its own, for several queries."""

    @abstractmethod
    def close(self) -> None:
        """Leave it."""

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query.  Raises PyhybridError, in one line."""
        return self.named(sql)[1]

    def ask(self, name: str, **values: object) -> list[dict[str, Any]]:
        """Return the rows of the query `name`.sql, with values for what it has in braces."""
        names, rows = self.named(query(name, **values))
        return [dict(zip(names, row, strict=True)) for row in rows]


class Ranks(Engine):
    """Ask DuckDB, which also writes the tables of what is there as a profile alone."""

    def __init__(self, path: str) -> None:
        """Find the files, and collect what is there as a profile alone.

        `path` is a folder, or a profile of several ranks.  Raises PyhybridError where there is
        nothing at all, or no DuckDB.
        """
        self.connection = connect()
        self.problems: list[str] = []
        self.folder, profiles = _found(path)
        self.tables_folder = self.folder  # another one where that is not writable
        self._collect(profiles)
        self.files = {table: self._files(table) for table in TABLES}
        if not self.files["process"]:
            why = f" ({self.problems[0]})" if self.problems else ""
            raise PyhybridError(f"{path}: neither profiles nor tables of ranks are there{why}")
        for table in TABLES.values():
            self._make_view(table.name)

    def _collect(self, profiles: Sequence[str]) -> None:
        """Write the tables of profiles that are newer than these."""
        for found in profiles:
            # What ended meanwhile is no part any more.
            path = found if os.path.exists(found) else found.removesuffix(".part")
            done = _collected(self.tables_folder, path)
            if done and not _is_newer(path, than=done):
                continue
            try:
                with open_profile(path) as profile:
                    name = file_name(profile)
                    file = os.path.join(self.tables_folder, "process", name + SUFFIX)
                    if not _is_newer(path, than=file):
                        continue
                    rows = rows_of(profile, os.path.relpath(path, self.folder))
                self._write(name, path, rows)
            except PyhybridError as error:
                self.problems.append(f"not read: {error}")

    def _write(self, name: str, path: str, rows: Rows) -> None:
        try:
            os.makedirs(self.tables_folder, exist_ok=True)
            if not os.access(self.tables_folder, os.W_OK):
                raise PermissionError(13, "not writable")
        except OSError:
            self._aside = tempfile.TemporaryDirectory(prefix="pyhybrid-ranks-")
            for table in TABLES:  # what is there is read there
                with suppress(OSError):
                    os.makedirs(os.path.join(self._aside.name, table))
                    for each in os.scandir(os.path.join(self.tables_folder, table)):
                        os.symlink(
                            os.path.abspath(each.path),
                            os.path.join(self._aside.name, table, each.name),
                        )
            self.problems.append(f"{self.tables_folder} is not writable: tables are made each time")
            self.tables_folder = self._aside.name
        write(self.connection, self.tables_folder, name, rows)
        _note_collected(self.tables_folder, path, name)

    def _files(self, table: str) -> list[str]:
        """Return a table's files that are whole."""
        folder, found = os.path.join(self.tables_folder, table), list[str]()
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(folder)):
                if not name.endswith(SUFFIX):
                    continue
                path = os.path.join(folder, name)
                if why := _damage(path):
                    self.problems.append(f"not read: {path}: {why}")
                else:
                    found.append(path)
        return found

    def _make_view(self, table: str) -> None:
        """Make the view of a table; columns that older files lack are null, and what newer ones
        have besides is there."""
        columns = TABLES[table].columns
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        sql = f"SELECT {empty} WHERE false"
        if self.files[table]:
            files = ", ".join(map(quoted, self.files[table]))
            sql += f" UNION ALL BY NAME SELECT * FROM read_parquet([{files}], union_by_name = true)"
        self.execute(f'CREATE OR REPLACE VIEW "{table}" AS {sql}')

    def named(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Ask DuckDB."""
        return _run(self.connection, sql)

    def keep(self, table: str, of: str, processes: Iterable[int]) -> None:
        """Keep them in memory, or beside it."""
        chosen = ", ".join(map(str, processes)) or "NULL"
        self.execute(
            f'CREATE OR REPLACE TEMP TABLE "{table}" AS '
            f'SELECT * FROM "{of}" WHERE process IN ({chosen})'
        )

    def close(self) -> None:
        """Close the database."""
        self.connection.close()


def query(name: str, **values: object) -> str:
    """Return the SQL of a query, with values for what it has in braces: numbers, and lists of
    these."""
    text = text_beside(__file__, f"{name}.sql")
    for key, value in values.items():
        if isinstance(value, str | int | float):
            shown = quoted(value) if isinstance(value, str) else str(value)
        else:
            shown = ", ".join(str(int(each)) for each in value) or "NULL"  # type: ignore[attr-defined]
        text = text.replace("{" + key + "}", shown)
    return text


def _found(path: str) -> tuple[str, list[str]]:
    """Return the folder of the tables, and the profiles that are to be in them."""
    if os.path.isdir(path):
        folder = path.rstrip(os.sep) or os.sep
        return folder, sorted(_profiles(folder))
    prefix = path.removesuffix(RANKS).removesuffix(PROFILE)
    if os.path.isfile(path):
        return prefix + RANKS, [path]
    if path.endswith(RANKS) and os.path.isfile(prefix + PROFILE):
        return path, [prefix + PROFILE]
    raise PyhybridError(f"{path}: there is no such folder, and no profile {prefix}{PROFILE}")


def _profiles(folder: str) -> Iterator[str]:
    """Yield profiles, and what killed runs left of which there is none."""
    names = set(os.listdir(folder))
    for name in names:
        whole = name.removesuffix(".part")
        if name.endswith(PROFILE) or (name.endswith(PART) and whole not in names):
            yield os.path.join(folder, name)


def _collected(folder: str, profile: str) -> str | None:
    """Return the file of processes that a profile's were put into; None: not yet."""
    with suppress(OSError), open(_note(folder, profile), encoding="utf-8") as file:
        name = os.path.basename(file.read().strip())
        path = os.path.join(folder, "process", name + SUFFIX)
        return path if os.path.exists(path) else None
    return None


def _is_newer(path: str, than: str) -> bool:
    try:
        return os.stat(path).st_mtime_ns > os.stat(than).st_mtime_ns
    except OSError:
        return True


def _note(folder: str, profile: str) -> str:
    return os.path.join(folder, "process", f".{os.path.basename(profile)}{_COLLECTED}")


def _note_collected(folder: str, profile: str, name: str) -> None:
    """Note it; what an earlier run of that name had there goes."""
    old = _collected(folder, profile)
    with suppress(OSError), open(_note(folder, profile), "w", encoding="utf-8") as file:
        file.write(name)
    if old and COMPACTED not in old and os.path.basename(old) != name + SUFFIX:
        for table in TABLES:
            with suppress(OSError):
                os.unlink(os.path.join(folder, table, os.path.basename(old)))


def note_compacted(folder: str) -> None:
    """Note for all profiles that were collected that their rows are in the compacted files."""
    for each in os.listdir(os.path.join(folder, "process")):
        if each.startswith(".") and each.endswith(_COLLECTED):
            with open(os.path.join(folder, "process", each), "w", encoding="utf-8") as file:
                file.write(COMPACTED)


def _damage(path: str) -> str:
    """Return why a Parquet file cannot be read; "": it begins and ends as one."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(4)
            file.seek(max(0, size - 8))
            length, end = int.from_bytes(file.read(4), "little"), file.read(4)
    except OSError as error:
        return error.strerror or str(error)
    if begin != b"PAR1" or end != b"PAR1" or length + 12 > size:
        return "not a whole Parquet file"
    return ""


@contextmanager
def closing[E: Engine](ranks: E) -> Iterator[E]:
    """Hold a folder of ranks for the block, and report on stderr what could not be read."""
    try:
        yield ranks
    finally:
        report(ranks.problems)
        ranks.close()


def report(problems: Iterable[str]) -> None:
    """Report what could not be read, a line each."""
    for line in problems:
        say(line)
