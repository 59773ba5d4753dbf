"""How rows come into the tables of a profile file: a few of any values, or many of numbers."""

import json
import os
import sqlite3
from collections.abc import Buffer, Iterable, Sequence
from itertools import batched, chain
from typing import Any

from pyhybrid._profile import ROWS_AT_ONCE, open_database, write_columns
from pyhybrid.profile_file.schema import Row

PROCESS = 1  # one spool is one process
_LIMIT = 1 << 63


def clean[Text: (str, str | None)](text: Text) -> Text:
    """Text as SQLite, and what reads C strings, can hold it: lone surrogates (odd file names) and
    NUL become backslash escapes."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def insert(
    database: sqlite3.Connection,
    table: type[Row],
    rows: Iterable[tuple[Any, ...]],
    process: int = PROCESS,
) -> None:
    """Rows with a value for each field that is a column; in the transaction that is open."""
    insert_into, row = table.table.insert(process)
    if texts := table.table.of_kind("Json"):
        rows = (_as_json(each, texts) for each in rows)
    for some in batched(rows, ROWS_AT_ONCE):
        sql = insert_into + ",".join([row] * len(some))
        values = tuple(chain.from_iterable(some))
        try:
            database.execute(sql, values)
        except OverflowError:  # a product of figures that are each possible
            database.execute(sql, tuple(map(_fitting, values)))


def _as_json(row: tuple[Any, ...], texts: list[int]) -> tuple[Any, ...]:
    values = list(row)
    for at in texts:
        values[at] = json.dumps(values[at])
    return tuple(values)


def _fitting(value: Any) -> Any:
    """An integer as a table can hold it: with 63 bits and a sign."""
    return min(max(value, -_LIMIT), _LIMIT - 1) if isinstance(value, int) else value


def _file_of(database: sqlite3.Connection) -> str:
    """The path of its file; "": it is in memory."""
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
