"""System calls that the module `os` has only where CPython was built with a new C library.

Interpreters that are built to run anywhere (those that uv installs) were built with one that is
older than the calls, whatever runs them now.
"""

from __future__ import annotations

import os

_PIDFD_OPEN = 434  # on all processors


def pidfd_open(pid: int) -> int:
    """Return a descriptor of the process, which can be read from once that has ended.

    It is closed by an exec.  Raises OSError.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    return _called("syscall", _PIDFD_OPEN, pid, 0)


def memfd_create(name: str) -> int:
    """Return a descriptor of a new file in memory, of this name in /proc/PID/maps.

    It is closed by an exec.  Raises OSError.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    closed_by_exec = 1
    return _called("memfd_create", name.encode(), closed_by_exec)


def _called(name: str, *values: int | bytes) -> int:
    """Call a function of the C library."""
    import ctypes  # which few interpreters need

    result: int = ctypes.CDLL(None, use_errno=True)[name](*values)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
