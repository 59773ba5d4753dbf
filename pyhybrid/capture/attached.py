"""In a program that runs already: a profile from now on, for the process that attached to it.

`serve` runs in a thread of its own, which sleeps on a socket while the profile runs.  What is
recorded goes into a file that the other one has opened and locked; it makes the profile, too.
Where it goes away, or asks for it, the profile ends, and the thread with it.  Never raises or
prints: the program is not ours.
"""

from __future__ import annotations

import atexit
import marshal
import os
import struct

from pyhybrid.base.light import suppress, to_json
from pyhybrid.capture.output_lock import Descriptor
from pyhybrid.errors import PyhybridError

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any

    from pyhybrid.capture.profiling_run import Profiling

LENGTH = struct.Struct("<I")  # of what follows, in both directions
STOP = b"s"
ATTACHED_AS = "attached_as"  # of meta data: its number where who attached sees another one
SLACK_S = 30.0  # after the time that was asked for the profile ends without a word


class GivenClaim:
    """Hold the spool that another process has opened, and the connection to it."""

    prefix = suffix = ""

    def __init__(self) -> None:
        self.spool = ""
        self.facts: dict[str, Any] = {}  # for the profile's meta data
        self.is_forsaken = False  # the other one is gone
        self._lock: Descriptor | None = None
        self._connection: Descriptor | None = None

    def take(self, spool: str, descriptor: int, connection: int) -> None:
        """Hold these from now on."""
        self.spool = spool
        self._lock, self._connection = Descriptor(descriptor), Descriptor(connection)

    @property
    def descriptor(self) -> int:
        """Return the file's; -1 once the program has closed it."""
        return self._lock.number if self._lock else -1

    @property
    def connection(self) -> int:
        """Return the socket's; -1 once the program has closed it."""
        return self._connection.number if self._connection else -1

    def keep(self) -> None:
        """Move both out of the program's way.  Raises OSError."""
        for each in (self._lock, self._connection):
            if each:
                each.move()

    def close(self) -> None:
        """Close the file."""
        if self._lock:
            self._lock.close()

    def leave(self) -> None:
        """Close both: it is over, or this is a forked child."""
        self.close()
        if self._connection:
            self._connection.close()

    give_up = close


def serve(path: str) -> None:
    """Profile for whoever listens on the socket at `path`, until it has enough."""
    with suppress(Exception):
        import _signal  # type: ignore[import-not-found]

        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        # First: the other one waits, and where the program computes each import takes its time.
        connection = _connected(path)
        from pyhybrid import _native
        from pyhybrid.capture.live_outputs import watch_attached

        claim = GivenClaim()
        watch_attached(_native, claim.leave)
        try:
            run = _met(connection, claim)
            _profile(claim, run)
            if claim.is_forsaken:  # nobody else removes its socket, or what began this
                for folder, _, names in os.walk(os.path.dirname(path), topdown=False):
                    for name in names:
                        os.unlink(os.path.join(folder, name))
                    os.rmdir(folder)
        finally:
            claim.leave()
            watch_attached(_native, claim.leave, ends=True)


def _connected(path: str) -> Any:
    """Return a connection to the other one's socket.  Raises OSError."""
    import _socket

    ours = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        ours.connect(path)
    except BaseException:
        ours.close()
        raise
    return ours


def _met(ours: Any, claim: GivenClaim) -> dict[str, Any]:
    """Fill the claim with what the other one has sent; returns the rest of that."""
    import _socket

    try:
        size = _socket.CMSG_SPACE(struct.calcsize("i"))
        data, passed, _, _ = ours.recvmsg(LENGTH.size, size, _socket.MSG_CMSG_CLOEXEC)
        descriptor = struct.unpack("i", passed[0][2])[0]
        run = marshal.loads(_read(ours.fileno(), LENGTH.unpack(data)[0]))
    except BaseException:
        ours.close()
        raise
    claim.take(run["spool"], descriptor, ours.detach())
    claim.facts = run["facts"]
    run_asked: dict[str, Any] = run
    return run_asked


def _read(descriptor: int, n_bytes: int) -> bytes:
    data = b""
    while len(data) < n_bytes:
        more = os.read(descriptor, n_bytes - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _profile(claim: GivenClaim, run: dict[str, Any]) -> None:
    from pyhybrid import __version__

    try:
        if __version__ != run["version"]:
            raise PyhybridError(
                f"it has loaded pyhybrid {__version__}, and this is {run['version']}"
            )
        profiling = _started(claim, run)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else error
        _answer(claim, {"error": str(reason or type(error).__name__)})
        return
    atexit.register(profiling.finish)  # where the program ends meanwhile
    try:
        profiling.native.call_as_own(_serve_until_end, claim, profiling, run["most_s"])
    finally:
        atexit.unregister(profiling.finish)
    _answer(claim, {"stopped": profiling.remarks})


def _serve_until_end(claim: GivenClaim, profiling: Profiling, most_s: float) -> None:
    """Let it run until the other one has enough; nothing of this thread is in the profile."""
    try:
        profiling.resume()
        _answer(claim, {"started": True})
        _wait(claim, most_s)
    finally:
        profiling.finish()


def _started(claim: GivenClaim, run: dict[str, Any]) -> Profiling:
    import _thread
    import sys

    from pyhybrid import _native
    from pyhybrid.capture.children import OWN_THREAD
    from pyhybrid.capture.profiling_run import Profiling
    from pyhybrid.options.settings import CommandLineSettings

    if _native.session():
        raise PyhybridError("it is profiled already")
    settings = CommandLineSettings(**run["options"])
    profiling = Profiling(settings, sys.orig_argv, claim=claim)
    profiling.start()
    profiling.native.name_thread(_thread.get_native_id(), OWN_THREAD)
    return profiling


def _wait(claim: GivenClaim, most_s: float) -> None:
    """Wait until the other one has enough, is gone, or does not answer for too long."""
    import select

    poll = select.poll()
    poll.register(claim.connection, select.POLLIN)
    if poll.poll(int(most_s * 1000)):
        claim.is_forsaken = not os.read(claim.connection, len(STOP))


def _answer(claim: GivenClaim, what: dict[str, Any]) -> None:
    """Tell it; where it is gone, nobody is told."""
    text = to_json(what).encode()
    with suppress(OSError):
        os.write(claim.connection, LENGTH.pack(len(text)) + text)
