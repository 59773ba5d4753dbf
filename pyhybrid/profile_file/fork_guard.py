"""No fork while a thread of ours is in SQLite.

SQLite has locks for its memory and caches, which all databases share.  In the child of a fork
those that another thread holds stay held for ever, and whatever uses SQLite there would hang,
were it only a Profile that dies (sqlite.org, "How To Corrupt An SQLite Database File", 2.6).
"""

import os
import sqlite3
import threading
from contextlib import suppress
from types import TracebackType

WAIT_S = 1.0  # a fork does not wait longer


class _InSqlite:
    """`with in_sqlite:` around whatever calls SQLite; a thread may nest it."""

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
        self._forking.holds = self._lock.acquire(timeout=WAIT_S)

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
