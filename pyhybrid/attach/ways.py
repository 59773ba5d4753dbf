"""The ways to let a running process execute a line of ours: it listens, sys.remote_exec, ptrace.

Each only begins `serve` (capture/attached.py) in a thread of that process; what follows goes over
the socket that this names.  They are tried in that order, and what one cannot do the next one may.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pyhybrid
from pyhybrid import _attach
from pyhybrid.attach.processes import Process, refusal
from pyhybrid.capture.listening import REQUEST
from pyhybrid.errors import UsageError

LISTENS, REMOTE_EXEC, PTRACE = "its own signal", "sys.remote_exec", "ptrace"
PATIENCE_S = 10.0  # until a thread is found that may be borrowed
PAUSE_S = 0.02
_FILE = "attach/begun"  # as whose it counts: functions in the package's folder are in no profile
_HANGS_AFTER_S = 1.0
_PENDING_AFTER_S = 0.1  # no thread sleeps for so long: the main thread runs it by itself

# What runs there.  The package is loaded by its path: neither sys.path nor what is installed there
# matters.  What goes wrong is sent to the socket.
_TEXT = """\
def begin(path, folders):
    import posix, sys
    try:
        posix.stat(path)
    except OSError:  # so late that nobody waits any more
        return
    try:
        if 'pyhybrid' not in sys.modules:
            import _frozen_importlib as b, _frozen_importlib_external as e
            s = e.spec_from_file_location('pyhybrid', folders[0] + '/__init__.py',
                                          submodule_search_locations=folders)
            m = sys.modules['pyhybrid'] = b.module_from_spec(s)
            try:
                s.loader.exec_module(m)
            except BaseException:
                del sys.modules['pyhybrid']
                raise
        from pyhybrid.capture.attached import serve
    except BaseException as error:
        import _socket
        s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        s.connect(path)
        s.sendall(ascii(error).encode())
        s.close()
    else:
        serve(path)
"""
_HERE = "begin({path!r}, {folders!r})\n"
_IN_THREAD = """\
from _thread import start_new_thread
start_new_thread(begin, ({path!r}, {folders!r}))
"""


def package_folders() -> list[str]:
    """Return where the package is: if it is edited in place, built files have another folder."""
    folders = list(pyhybrid.__path__)
    where = os.path.dirname(_attach.__file__)
    return [*folders, where] if where not in folders else folders


def text(path: str, folders: list[str], *, in_thread: bool) -> str:
    """Return what begins there, in the thread that runs it or in a new one; `folders`: those of the
    package, as the process may open them."""
    return _TEXT + (_IN_THREAD if in_thread else _HERE).format(path=path, folders=folders)


class Way:
    """Hold what has been done to begin there: `name`, and what to undo when it has."""

    def __init__(self, name: str, stopped_ms: float = 0.0, thread: int = 0) -> None:
        self.name, self.stopped_ms, self.thread = name, stopped_ms, thread

    def __str__(self) -> str:
        if self.name == PTRACE:
            return f"{self.name}: thread {self.thread} stood still for {self.stopped_ms:.1f} ms"
        return self.name


def ways(process: Process) -> list[str]:
    """Return those that are possible by what can be seen."""
    found = [LISTENS] if process.listens_by else []
    if process.version >= (3, 14) and not process.root:  # the file must have one name on both sides
        found.append(REMOTE_EXEC)
    return [*found, PTRACE]


def begin_by_signal(process: Process, path: str, root: str) -> Way:
    """Leave the request, and send the signal.  Raises UsageError."""
    request = root + REQUEST.format(pid=process.own_number)
    with suppress(FileNotFoundError):
        os.unlink(request)
    try:
        file = os.open(request, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        os.write(file, os.fsencode(path))
        if os.geteuid() == 0:
            os.fchown(file, process.uid, -1)
        os.close(file)
        os.kill(process.pid, process.listens_by)
    except OSError as error:
        raise UsageError(f"process {process.pid} cannot be asked: {error}") from None
    return Way(LISTENS)


def begin_by_remote_exec(process: Process, path: str, folder: str, package: list[str]) -> Way:
    """Let its main thread run it where it next may.  Raises UsageError."""
    script = os.path.join(folder, "begin.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(text(path, package, in_thread=True))
    os.chmod(script, 0o644)
    try:
        sys.remote_exec(process.pid, script)  # type: ignore[attr-defined,unused-ignore]
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{REMOTE_EXEC}: {error}") from None
    return Way(REMOTE_EXEC)


def withdraw(process: Process) -> None:
    """Take back what its main thread was to run, where it does not come to that.

    Else it would run it much later, and report on its standard error that the file is gone.
    """
    with suppress(OSError, UsageError):
        for tid, state, _ in process.interpreter()[3]:
            if tid == process.pid:
                _attach.withdraw(process.pid, state)


def begin_by_ptrace(process: Process, path: str, package: list[str]) -> Way:
    """Use a thread that sleeps, or the main thread while it runs.  Raises UsageError."""
    pid, functions = process.pid, process.functions
    file = os.path.join(package[0], _FILE)
    begun = blocked_since = time.monotonic()
    why, seen = "", (0, 0)
    while (now := time.monotonic()) - begun < PATIENCE_S:
        check_goes_on(process)
        alive, ends, switches, threads = process.interpreter()
        if not alive or ends:
            raise UsageError(f"process {pid} is beginning or ending: there is no Python")
        holder = next((tid for tid, _, holds in threads if holds), 0)
        if not holder or (holder, switches) != seen or _state(pid, holder) == "R":
            seen, blocked_since = (holder, switches), now
        elif now - blocked_since > _HANGS_AFTER_S:
            raise UsageError(
                f"process {pid} hangs: thread {holder} has the GIL and sleeps in native code, so "
                f"no Python can begin; `pyhybrid dump {pid}` shows where"
            )
        if blocked_since == now:  # whoever sleeps with the GIL may be anywhere
            tids = [(tid, False) for tid in _sleepers(pid) if tid != holder]
            tids += [(pid, True)] if now - begun > _PENDING_AFTER_S else []
            for tid, pending in tids:
                code = text(path, package, in_thread=pending)
                result, error, ns = _attach.inject(
                    pid, tid, functions, process.runtime, code, file, pending
                )
                if not result:
                    return Way(PTRACE, ns / 1e6, tid)
                why = _judged(process, result, error) or why
        time.sleep(PAUSE_S)
    raise UsageError(
        f"process {pid}: no thread could be borrowed for {PATIENCE_S:.0f} s: "
        f"{why or 'none sleeps, and the main thread is in the midst of something'}"
    )


def check_goes_on(process: Process) -> None:
    """Raise UsageError for a process that is stopped, or has ended."""
    pid = process.pid
    if (state := _state(pid, pid)) == "T":
        raise UsageError(f"process {pid} is stopped: `kill -CONT {pid}` lets it go on")
    if state == "X" or (state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1):
        raise UsageError(f"process {pid} has ended")


def _state(pid: int, tid: int) -> str:
    """Return the kernel's letter for what a thread does; X: it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/task/{tid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0].decode()
    return "X"


def _judged(process: Process, result: str, error: int) -> str:
    """Return why it was not done, where another try may; raises UsageError where none will."""
    match result:
        case "denied":
            raise refusal(process.pid, OSError(error, os.strerror(error)))
        case "traced":
            raise UsageError(f"process {process.pid} is traced already (a debugger, strace)")
        case "stopped":
            check_goes_on(process)
        case "failed":
            return os.strerror(error)
    return ""


def _sleepers(pid: int) -> Iterator[int]:
    """Yield the threads that seem to sleep in a system call, the longest asleep first: those with
    a call that waits for time or input, then those at a lock."""
    found = []
    for name in os.listdir(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{name}"
        with suppress(OSError, ValueError):
            if _state(pid, int(name)) != "S":
                continue
            with open(f"{folder}/syscall", encoding="ascii") as file:
                call = file.read().split()[0]
            found.append((call == "202", int(name) == pid, int(name)))
    yield from (tid for _, _, tid in sorted(found))
