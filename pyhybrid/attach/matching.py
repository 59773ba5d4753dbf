"""An interpreter of the version that a process runs, with pyhybrid: what attaches to it, or reads
its memory, must be of that version."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

from pyhybrid.attach.processes import OLDEST, OWN_VERSION, Process, words_of
from pyhybrid.base.terminal_text import say
from pyhybrid.errors import UsageError

_MARKER = "PYHYBRID_GOES_ON"  # of one that has been found: it looks for no other
_PROBE = "import sys, pyhybrid._attach; print(*sys.version_info[:2])"
PATIENCE_S = 20.0


def go_on_by_matching(process: Process) -> None:
    """Return if this is of the process's version; else go on by one that is, which is an exec.

    Raises UsageError where there is none.
    """
    if is_matching(process):
        return
    found = matching_python(process)
    say(f"process {process.pid} runs Python {process.shown_version}: this goes on by {found}")
    sys.stderr.flush()
    os.environ[_MARKER] = "1"
    os.execv(found, [found, "-P", "-m", "pyhybrid", *sys.argv[1:]])


def is_matching(process: Process) -> bool:
    """Is it of this interpreter's version?  Raises UsageError for one that nothing here reads."""
    if process.is_free_threaded:
        raise UsageError(f"process {process.pid} runs a free-threaded Python: not supported yet")
    if process.version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        runs = f"process {process.pid} runs Python {process.shown_version}"
        raise UsageError(f"{runs}: {oldest} or newer is needed")
    return process.version[:2] == OWN_VERSION


def matching_python(process: Process) -> str:
    """Return an interpreter of its version that has pyhybrid.  Raises UsageError."""
    version = "{}.{}".format(*process.version)
    if _MARKER not in os.environ:
        for path in _candidates(process, version):
            if _has_pyhybrid(path, version):
                return path
    own = "{}.{}".format(*OWN_VERSION)
    raise UsageError(
        f"process {process.pid} runs Python {process.shown_version}, this pyhybrid is for {own}: "
        f"install pyhybrid for {version} (in any environment on the PATH, or in the process's)"
    )


def _candidates(process: Process, version: str) -> Iterator[str]:
    folders = []
    with suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
        for each in file.read().split(b"\0"):
            name, _, value = os.fsdecode(each).partition("=")
            if name == "VIRTUAL_ENV":
                folders.append(os.path.join(value, "bin"))
            elif name == "PATH":
                folders += value.split(":")
    first = next(iter(words_of(process.pid)), "")
    if first.startswith("/"):
        folders.insert(0, os.path.dirname(first))
    with suppress(OSError):
        folders.append(os.path.dirname(os.readlink(f"/proc/{process.pid}/exe")))
    folders += os.environ.get("PATH", "").split(":")
    for folder in dict.fromkeys(folders):
        for name in (f"python{version}", "python3", "python"):
            path = os.path.join(folder, name)
            if folder.startswith("/") and os.access(path, os.X_OK):
                yield path
                break


def _has_pyhybrid(path: str, version: str) -> bool:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [path, "-P", "-c", _PROBE], capture_output=True, timeout=PATIENCE_S, text=True
        )
        return done.stdout.split() == version.split(".")
    return False
