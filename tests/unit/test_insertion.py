"""pyhybrid/assemble/insertion.py: rows go into tables."""

import sqlite3

from pyhybrid.assemble.insertion import insert
from pyhybrid.profile_file import schema

OLDEST_LIMIT = 999  # parameters of a statement, before SQLite 3.32 (sqlite.org/limits.html)


def test_the_widest_table_fits_older_sqlite() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(schema.TEXT)
    tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    columns = [database.execute(f"PRAGMA table_info({name})").fetchall() for (name,) in tables]
    width = max(map(len, columns))
    database.execute(f"CREATE TABLE wide ({','.join(f'c{n}' for n in range(width))})")
    database.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, OLDEST_LIMIT)
    rows = [tuple(range(n, n + width)) for n in range(150)]
    insert(database, "wide", rows)
    assert database.execute("SELECT * FROM wide").fetchall() == rows
