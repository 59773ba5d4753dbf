"""No fork while a thread of ours is in SQLite.

SQLite has locks for its memory and caches, which all databases share.  In the child of a fork
those that another thread holds stay held for ever, and whatever uses SQLite there would hang,
were it only a Profile that dies (sqlite.org, "How To Corrupt An SQLite Database File", 2.6).
"""

import os
import threading
from types import TracebackType

WAIT_S = 1.0  # a fork does not wait longer


class _InSqlite:
    """`with in_sqlite:` around whatever calls SQLite; a thread may nest it."""

    def __init__(self) -> None:
        self._forking = threading.local()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._forking.holds = self._lock.acquire(timeout=WAIT_S)

    def after_in_parent(self) -> None:
        if getattr(self._forking, "holds", False):
            self._lock.release()

    def after_in_child(self) -> None:
        self.__init__()  # type: ignore[misc]  # who held it is not here


in_sqlite = _InSqlite()
os.register_at_fork(
    before=in_sqlite.before_fork,
    after_in_parent=in_sqlite.after_in_parent,
    after_in_child=in_sqlite.after_in_child,
)
