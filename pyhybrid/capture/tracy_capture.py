"""`--tracy FILE`: Tracy's capture program beside the profiled one, and what the client must know.

The capture is of another session, and no child of the program's: its wait() does not see it.  At
the end of the process the client in it sends what it has, then the process waits for the file.
"""

import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from pyhybrid.capture.finisher import environment
from pyhybrid.errors import PyhybridError

COMPANION = os.path.join(os.path.dirname(__file__), "tracy_companion.py")
NAMES = ("tracy-capture", "iree-tracy-capture")
CONNECTS_MS = 30_000  # it takes milliseconds, on a very busy machine seconds
# The client's, where the user has not set them: no sampling of the whole system, no listening
# for others (client/TracyProfiler.cpp, common/TracySocket.cpp).
QUIET = ("TRACY_NO_SYS_TRACE", "TRACY_ONLY_LOCALHOST", "TRACY_ONLY_IPV4")


def find(library: str) -> str:
    """Return the capture program: beside the client, on PATH, or IREE's.  Raises PyhybridError."""
    for path in _places(library):
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise PyhybridError(f"no capture program of Tracy's is there: put {NAMES[0]} on PATH")


def _places(library: str) -> Iterator[str]:
    folders = [os.path.dirname(os.path.abspath(library))] if library else []
    folders += os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders += [os.path.join(each, "iree", "_runtime_libs_tracy") for each in sys.path if each]
    for folder in folders:
        for name in NAMES:
            yield os.path.join(folder, name)


def _claim_port() -> int:
    """Claim TRACY_PORT's, or one that is free.  Raises OSError, PyhybridError."""
    wanted = os.environ.get("TRACY_PORT", "")
    if not wanted:
        return _bind(0)
    if not (wanted.isascii() and wanted.isdigit() and 0 < int(wanted) < 1 << 16):
        raise PyhybridError(f"TRACY_PORT is no port: {wanted}")
    try:
        return _bind(int(wanted))
    except OSError as error:
        raise PyhybridError(f"the port {wanted} (TRACY_PORT): {error.strerror}") from error


def _bind(port: int) -> int:
    """Return the port, or with 0 a free one.  Raises OSError."""
    import _socket  # without the module around it

    socket = _socket.socket()
    try:
        socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        socket.bind(("127.0.0.1", port))
        found: int = socket.getsockname()[1]
        return found
    finally:
        socket.close()


def _is_free(port: int) -> bool:
    try:
        return _bind(port) == port
    except OSError:
        return False


class TracyCapture:
    """Run a capture program that writes `file` when the client of `library`, or another one, ends.

    Clients that are loaded from now on know where it is.  Raises OSError, PyhybridError.
    """

    def __init__(self, native: ModuleType, python: str | None, file: str, library: str) -> None:
        import _socket

        self._native = native
        self._has_library = bool(library)
        if not python:
            raise PyhybridError("no Python interpreter is known here that could run the capture")
        file = os.path.abspath(file)
        _check_place(file)
        self._port = _claim_port()
        command = [find(library), "-f", "-o", file, "-a", "127.0.0.1", "-p", str(self._port)]
        words = [python, "-I", COMPANION, file, *command]
        ours, theirs = _socket.socketpair()
        try:
            _spawn(native, words, theirs.fileno())
            native.prepare_exit()  # before the client comes: exit() waits when that has ended
            native.keep_companion(ours.detach())
        finally:
            ours.close()
            theirs.close()
        for name in QUIET:
            if name not in os.environ:
                os.putenv(name, "1")
        os.putenv("TRACY_PORT", str(self._port))

    def around(self, emit: Callable[[], str]) -> str:
        """Open the sink by `emit`, and wait until a client that it has loaded is connected.

        Where that fails the sink, which is the first one, is not open.
        """
        try:
            note = emit()
            if self._has_library:
                self._connect()
            return note
        except BaseException:
            self._native.close_emit()
            self._native.drop_companion()
            raise

    def _connect(self) -> None:
        line, has_ended = self._native.companion_said(CONNECTS_MS)
        while line and not line.startswith(b"+") and not has_ended:  # it may come in parts
            line, has_ended = self._native.companion_said(CONNECTS_MS)
        if not line.startswith(b"+"):
            reason = line.decode(errors="replace") or "the capture program cannot connect to it"
            raise PyhybridError(reason)

    def settle(self) -> None:
        """Settle it at the end: a client that has just been loaded is to be connected.

        Where there is none, which has been reported, nothing is waited for.
        """
        line, has_ended = self._native.companion_said(0)
        if line or has_ended:
            return
        if _is_free(self._port):
            self._native.drop_companion()
        else:
            self._native.companion_said(CONNECTS_MS)


def _check_place(file: str) -> None:
    """Check it now: at the end it is too late for a message.  Raises PyhybridError."""
    is_new = not os.path.exists(file)
    try:
        with open(file, "ab"):
            pass
        if is_new:
            os.unlink(file)
    except OSError as error:
        raise PyhybridError(f"{file}: {error.strerror}") from None


def _spawn(native: ModuleType, words: list[str], socket: int) -> None:
    command = [os.fsencode(word) for word in words]
    variables = environment()
    if not native.spawn_orphan(command, variables, socket):  # process 1 finds all orphans
        actions = [(os.POSIX_SPAWN_DUP2, socket, 3)]
        by_name = dict(each.split(b"=", 1) for each in variables)
        os.posix_spawn(words[0], words, by_name, file_actions=actions)
