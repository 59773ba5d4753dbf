"""Where the runtimes of this process write the names of their code (symbols/jit.py reads them).

Imports are few and light: the program waits for it.
"""

from __future__ import annotations

import os
import posix  # at the end `os` may have other functions
import stat
import time

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SLACK_S = 2.0  # wall-clock time is set


def jit_files(*, maps: bool = True) -> dict[str, Any]:
    """Return meta `perf_map` (a path or None) and `jitdumps` (paths): of this process, as of now.

    Without `maps` none of the latter are sought, which takes longer, the more is mapped.

    A file that cannot be looked for is none.  Never raises: the program may forbid to open files
    (audit hooks), or have replaced `os.open`.
    """
    pid = posix.getpid()
    return {"perf_map": _tried(_perf_map, pid), "jitdumps": (maps and _tried(_jitdumps, pid)) or []}


def _tried(look: Callable[[int], Any], pid: int) -> Any:
    try:
        return look(pid)
    except Exception:
        return None


def perf_map_path(pid: int) -> str:
    """Return where runtimes write the process's perf map, and perf reads it."""
    return f"/tmp/perf-{pid}.map"


def is_of_this_process(path: str) -> bool:
    """Is the file this process's, and not an older one's of the same number?  Raises OSError."""
    return posix.lstat(path).st_mtime >= _began() - _SLACK_S


def began_since_boot(process: str) -> float:
    """Return when a process of /proc began, in seconds of CLOCK_BOOTTIME.  Raises OSError."""
    ticks = int(stat_fields(process)[19])
    return ticks / posix.sysconf("SC_CLK_TCK")


def stat_fields(process: str) -> list[bytes]:
    """Return what /proc has of a process behind its name: state, parent... (proc_pid_stat(5)).

    Raises OSError.
    """
    return _read(f"/proc/{process}/stat").rpartition(b")")[2].split()


def why_not_ours(path: str) -> str:
    """Return why what is there must not be removed; "" where it may be, or nothing is there."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(there.st_mode):
        return "there is something else of that name"
    if there.st_uid != os.geteuid():
        return "the file there belongs to another user"
    return ""


def _perf_map(pid: int) -> str | None:
    path = perf_map_path(pid)
    return path if is_of_this_process(path) else None


def _began() -> float:
    """Return when this process began, in seconds of wall-clock time."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + began_since_boot("self")


def _jitdumps(pid: int) -> list[str]:
    """Return the jitdumps: a runtime maps a page of its own as code, for profilers."""
    end = b"/jit-%d.dump" % pid
    found: dict[str, None] = {}
    # Not self: nothing is mapped there once the main thread has ended.
    for line in _read("/proc/thread-self/maps").split(b"\n"):
        line = line.removesuffix(b" (deleted)")
        fields = line.split(None, 5)
        if line.endswith(end) and len(fields) == 6 and b"x" in fields[1]:
            found[os.fsdecode(fields[5].replace(b"\\012", b"\n"))] = None
    return list(found)


def _read(path: str) -> bytes:
    file = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        parts = []
        while part := posix.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(file)
