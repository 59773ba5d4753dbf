"""pyhybrid/tables/database.py: rows go into tables."""

import sqlite3

from pyhybrid.tables.database import insert
from pyhybrid.tables.schema import TABLES, create_all

OLDEST_LIMIT = 999  # parameters of a statement, before SQLite 3.32 (sqlite.org/limits.html)


def test_the_widest_table_fits_older_sqlite() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(create_all())
    database.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, OLDEST_LIMIT)
    widest = max(TABLES.values(), key=lambda row: len(row.table.stored))
    rows = [tuple(range(n, n + len(widest.table.stored))) for n in range(150)]
    insert(database, widest, rows)
    columns = ", ".join(widest.table.stored)
    read = database.execute(f"SELECT {columns} FROM {widest.table.name}").fetchall()
    assert [tuple(map(int, row)) for row in read] == rows
