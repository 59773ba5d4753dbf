"""Where the spool is that is followed: of a run, by its prefix or file, or of a process.

A program can be started for it (Started): it gets no terminal, what it writes goes into a file.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from pyhybrid.capture.output_lock import PART, prefix_of
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.spool import HEADER

_DELETED = " (deleted)"


def spool_of_run(name: str) -> str:
    """Return the path of the spool of a run that has this prefix, or file; "": there is none."""
    for path in (name, prefix_of(name) + PART):
        if path.endswith(".part") and os.path.isfile(path):
            return path
    return ""


def check_records(path: str) -> None:
    """Raise PyhybridError where nothing is recorded, and nobody is about to."""
    try:
        with open(path, "rb") as spool:
            if os.fstat(spool.fileno()).st_size >= HEADER.size:
                return
            with suppress(BlockingIOError):
                fcntl.flock(spool, fcntl.LOCK_SH | fcntl.LOCK_NB)
                raise PyhybridError(f"{path}: breaks off before anything was recorded")
    except OSError as error:
        raise PyhybridError(f"cannot read {path}: {error.strerror}") from error


def spool_of_process(pid: int) -> str:
    """Return the path of the spool that a process writes; "": it writes none.

    Raises UsageError where that may not be seen."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        raise UsageError(f"there is no process {pid}") from None
    except PermissionError:
        raise UsageError(f"process {pid} is another user's: that user may, and root") from None
    for name in names:
        with suppress(OSError):
            path = os.readlink(f"{folder}/{name}")
            if path.removesuffix(_DELETED).endswith(".part"):
                return path if os.path.exists(path) else f"{folder}/{name}"
    return ""


class Started:
    """Run `python -m pyhybrid WORDS`; what it writes goes into the file `log`."""

    def __init__(self, words: Sequence[str], log: str) -> None:
        """Start it.  Raises UsageError."""
        self.folder = tempfile.mkdtemp(prefix="pyhybrid-live-")
        self.log = log or os.path.join(self.folder, "output")
        try:
            with open(self.log, "wb") as output:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "pyhybrid", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise UsageError(f"{self.log}: {error.strerror}") from None

    @property
    def spool(self) -> str:
        """Return the path of the spool that it writes; "": none yet."""
        with suppress(UsageError):
            return spool_of_process(self.process.pid)
        return ""

    def is_ending(self, spool: str) -> bool:
        """Has the profile ended, so that the process soon does, once its files are made?"""
        return self.spool != spool

    def last_lines(self, n: int) -> list[str]:
        """Return the last lines of its output."""
        with suppress(OSError), open(self.log, encoding="utf-8", errors="replace") as output:
            return output.read().splitlines()[-n:]
        return []
