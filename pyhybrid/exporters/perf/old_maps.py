"""Perf maps of runs whose profile is gone, or was replaced twice: the next run removes them.

Each run leaves one in /tmp, for perf finds it only there.  Which are ours, and of which profiles,
is in their first line, an entry that nothing lies at: `1 1 pyhybrid:[...]`.  What another program
wrote, or wrote first, has none, and stays; so does that of a process that lives, of another user,
and of a namespace in which other processes and files have these numbers and names.
"""

import json
import os
import re
import sqlite3
import stat
from contextlib import closing, suppress
from itertools import islice
from operator import attrgetter
from typing import Any

from pyhybrid.capture.jit_files import perf_map_path
from pyhybrid.tables.database import quoted
from pyhybrid.tables.profile import Profile

_MARK = b"1 1 pyhybrid:"
_MOST_BYTES = 64 << 10  # of a first line
_MOST_FILES = 10_000  # that are looked at, of a folder with more


def mark(profile: Profile, theirs: bytes) -> bytes:
    """Return the first line of the profile's map; empty where what was there is not ours, and
    without /proc: no later run removes it."""
    try:
        written_ns = os.stat(profile.path).st_mtime_ns
        known, spaces = _profiles(theirs) if theirs else [], _spaces()
    except (OSError, ValueError):
        return b""
    path = os.path.abspath(profile.path)
    runs = [run for run in known if run[0] != path]
    runs.append([path, written_ns, profile.process.pid, profile.process.start_ns])
    text = json.dumps({"spaces": spaces, "runs": runs})
    return _MARK + text.encode() + b"\n"


def without_mark(theirs: bytes) -> bytes:
    """Return the entries of a map that may be ours."""
    return theirs.partition(b"\n")[2] if theirs.startswith(_MARK) else theirs


def remove_old() -> None:
    """Remove those in the folder of all maps; what cannot be removed stays.

    The map of the newest run that a profile's last one came after stays, too: it is that of
    `perf.data.old`.
    """
    folder, name = os.path.split(perf_map_path(0))
    pattern = re.compile(re.escape(name).replace("0", r"(\d+)", 1))
    old: list[_Map] = []
    with suppress(OSError), os.scandir(folder) as found:
        for entry in islice(found, _MOST_FILES):
            if is_map := pattern.fullmatch(entry.name):
                with suppress(OSError, ValueError):
                    old.append(_Map(entry.path, is_map[1]))
    newest = {each.replaced: each for each in sorted(old, key=attrgetter("written_ns"))}
    for each in old:
        if each.may_go and not (each.replaced and newest[each.replaced] is each):
            with suppress(OSError):
                each.remove()


class _Map:
    """Check a file that may be a map of ours, of profiles that are not there any more.

    `replaced`: the path of one in whose place another run's is; `written_ns`: when it was written.
    Raises OSError, or ValueError where it is none of ours.
    """

    def __init__(self, path: str, pid: str) -> None:
        self._path, self.may_go = path, False
        self.replaced, self.written_ns = "", 0
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            self._there = os.fstat(descriptor)
            if not stat.S_ISREG(self._there.st_mode) or self._there.st_uid != os.geteuid():
                return
            runs = _profiles(file.readline(_MOST_BYTES))
        self.may_go = not os.path.exists(f"/proc/{pid}")
        for profile, written_ns, *run in runs:
            is_there = _is_there(profile, written_ns, *run)
            self.may_go = self.may_go and not is_there
            if is_there is False:
                self.replaced, self.written_ns = profile, written_ns

    def remove(self) -> None:
        """Remove it.  Raises OSError."""
        if os.path.samestat(os.lstat(self._path), self._there):
            os.unlink(self._path)


def _profiles(line: bytes) -> list[list[Any]]:
    """Return path, time of writing, process and begin of each profile that a map is of.  Raises
    ValueError where it is none of ours, or of another namespace."""
    text, end, _ = line.partition(b"\n")
    if not (end and text.startswith(_MARK)):
        raise ValueError("not ours")
    facts = json.loads(text[len(_MARK) :])
    if not isinstance(facts, dict) or facts.get("spaces") != _spaces():
        raise ValueError("of another namespace")
    runs = facts.get("runs")
    if not isinstance(runs, list) or any(map(_is_odd, runs)):
        raise ValueError("damaged")
    return runs


def _is_odd(run: Any) -> bool:
    path, *numbers = run if isinstance(run, list) and len(run) == 4 else [None]
    return not isinstance(path, str) or not all(isinstance(each, int) for each in numbers)


def _is_there(path: str, written_ns: int, pid: int, start_ns: int) -> bool | None:
    """Is that run's profile still there?  Where it is not known, it is; None: nothing is there."""
    try:
        if os.stat(path).st_mtime_ns == written_ns:
            return True
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return True
    name = f"file:{quoted(path)}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(name, uri=True)) as database:
            rows = database.execute("SELECT pid, start_ns FROM process LIMIT 1000").fetchall()
    except sqlite3.Error:
        return False  # something else now
    return (pid, start_ns) in rows


def _spaces() -> list[str]:
    """Return the namespaces that this process is in.  Raises OSError."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "pid")]
