"""Single calls of functions that have a `slower_than`: shorter ones are left out of the file."""

import sqlite3
from typing import Any

from pyhybrid.options.function_filter import is_one_of, named


def drop_short(database: sqlite3.Connection, slower_than: list[Any]) -> None:
    """Of (name, nanoseconds): the calls of functions named so that took less.

    Calls that are not there from begin to end stay.  What began within a call that goes began
    within the next one further out.
    """
    for name, least_ns in slower_than:
        told = database.execute("SELECT frame, path, module, file FROM code").fetchall()
        frames = [
            (frame,)
            for frame, path, module, file in told
            if is_one_of(named([name]), path.removeprefix(f"{module}."), module, file)
        ]
        database.execute("BEGIN")
        database.execute("CREATE TEMP TABLE chosen(frame INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO chosen VALUES (?)", frames)
        database.execute("CREATE TEMP TABLE short(id INTEGER PRIMARY KEY, parent INTEGER)")
        database.execute(
            "INSERT INTO short SELECT call.id, call.parent FROM call"
            " JOIN node ON node.id = call.node"
            " WHERE frame IN (SELECT frame FROM chosen) AND end_ns - begin_ns < ?"
            " AND state != 'partial'",
            (least_ns,),
        )
        while database.execute(
            "UPDATE call SET parent = (SELECT short.parent FROM short WHERE short.id = call.parent)"
            " WHERE parent IN (SELECT id FROM short)"
        ).rowcount:
            pass
        for table in ("turn", "usage"):
            database.execute(f"DELETE FROM {table} WHERE call IN (SELECT id FROM short)")
        database.execute("DELETE FROM call WHERE id IN (SELECT id FROM short)")
        database.execute("DROP TABLE chosen")
        database.execute("DROP TABLE short")
        database.execute("COMMIT")
