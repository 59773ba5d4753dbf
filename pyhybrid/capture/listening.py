"""A program that lets itself be profiled on demand, without ptrace: it listens by a signal.

`listen()`, or the variable PYHYBRID_LISTEN in its environment, gives one real-time signal a
handler; nothing runs until that comes.  Who attaches leaves a file that names a socket, and sends
the signal (attach/ways.py).  That it listens shows in /proc/PID/maps: a name, which a fork keeps
and an exec does not, as with the handler.
"""

from __future__ import annotations

import os
import stat
import sys

from pyhybrid.base.light import suppress
from pyhybrid.errors import PyhybridError

VARIABLE = "PYHYBRID_LISTEN"
MARK = "pyhybrid-listens-"  # and the signal's number, of a file in memory
REQUEST = "/tmp/pyhybrid-request-{pid}"  # who attaches writes the socket's path there
_LONGEST = 200

_listens: tuple[int, object] | None = None  # by which signal, and the mapping that shows it


def listen() -> int:
    """Let `pyhybrid attach` profile this process without ptrace, from now on.

    Returns the number of the real-time signal that it waits for: one that nobody handles.  Nothing
    runs until it comes.  It must be called in the main thread, as `signal.signal`.  Raises
    PyhybridError.
    """
    global _listens
    import _signal  # type: ignore[import-not-found]
    import mmap

    from pyhybrid.base.system_calls import memfd_create

    if _listens:
        return _listens[0]
    usual = range(_signal.SIGRTMIN + 8, _signal.SIGRTMAX - 7)
    free = next((each for each in usual if _signal.getsignal(each) == _signal.SIG_DFL), 0)
    if not free:
        raise PyhybridError("no real-time signal is free to listen by")
    try:
        file = memfd_create(f"{MARK}{free}")
        os.ftruncate(file, mmap.PAGESIZE)
        mapping = mmap.mmap(file, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(file)
        _signal.signal(free, _on_request)
    except (OSError, ValueError) as error:
        raise PyhybridError(f"cannot listen: {error}") from None
    _listens = free, mapping
    return free


def listen_if_asked() -> None:
    """Call `listen` where the variable asks for it.  Never raises."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        with suppress(Exception):
            listen()


def _on_request(signal: int, frame: object) -> None:
    """Begin what the request asks for, in a thread of its own: this one is the program's."""
    with suppress(Exception):
        path = _requested()
        if path:
            import _thread

            from pyhybrid.capture.attached import serve

            _thread.start_new_thread(serve, (path,))


def _requested() -> str:
    """Return the socket's path; empty: no request is here that may be trusted."""
    try:
        file = os.open(REQUEST.format(pid=os.getpid()), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        status = os.fstat(file)
        if status.st_uid not in (0, os.geteuid()) or not stat.S_ISREG(status.st_mode):
            return ""
        return os.read(file, _LONGEST).decode(sys.getfilesystemencoding())
    finally:
        os.close(file)
