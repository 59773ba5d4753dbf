"""What the children of a run recorded: their spools, to be one profile with the run's.

A child's spool is whole once nobody has its lock: the child has ended, however it did.  What still
runs when the profile is made is named in it, and stays in the folder: `pyhybrid merge` adds it.
"""

import fcntl
import os
import select
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from pyhybrid.base.system_calls import pidfd_open
from pyhybrid.capture.children import LEFT_OUT, PART, TAKEN
from pyhybrid.capture.finisher import start_ticks
from pyhybrid.capture.jit_files import began_since_boot, stat_fields
from pyhybrid.errors import PyhybridError
from pyhybrid.spool import reader as spools

PATIENCE_S = 2.0  # for children that end with their parent, as those of a pool
LOOK_S, SLACK_S = 0.02, 0.05  # the kernel's ticks are of 10 ms
BEGINS_S, LIFE_LOOK_S = 5.0, 0.5  # for a program to begin; how often it is looked whether it has
MOST_NAMED = 50  # of what is not profiled


class ChildSpools:
    """Take the spools in a folder, whose locks are this process's from then on."""

    def __init__(self, folder: str, run: int) -> None:
        """Wait for those that end with the program, whose process is `run`."""
        self.folder = folder
        self.paths: list[str] = []  # of those that can be read, in the order of their begin
        self.running: list[str] = []
        self._locks: list[int] = []
        self.failed: list[tuple[str, str]] = []  # paths, and why they are not in the profile
        until = time.monotonic() + PATIENCE_S
        left = self._there()
        while left := [path for path in left if not self._takes(path)]:
            if time.monotonic() > until or not _end_with(run, left):
                break
            time.sleep(LOOK_S)
        self.running = left
        self.paths.sort(key=began_ns)

    def _there(self) -> list[str]:
        return [os.path.join(self.folder, name) for name in spools_in(self.folder)]

    def _takes(self, path: str) -> bool:
        """Take it, if nobody has it; one that is empty was killed before it began."""
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        if _goes_on(path):  # it has closed all that it found open, as daemons do
            os.close(file)
            return False
        if os.fstat(file).st_size:
            self._locks.append(file)
            self.paths.append(path)
        else:
            os.close(file)
            self.failed.append((path, "killed as it began"))
        return True

    def metadata(self) -> dict[str, Any]:
        """Return what the profile's meta data gets: the processes that are not in it."""
        left: Counter[str] = Counter()
        with suppress(OSError), open(os.path.join(self.folder, LEFT_OUT), encoding="utf-8") as file:
            left.update(line.rstrip("\n") for line in file)
        known: dict[str, Any] = {}
        if left:
            rows = [(*line.split("\t", 1), n) for line, n in left.most_common(MOST_NAMED)]
            known["left_out"] = [row for row in rows if len(row) == 3]
        if self.running:
            known["still_running"] = [_pid(path) for path in self.running]
        if self.failed:
            known["not_merged"] = [[_pid(path), why] for path, why in self.failed]
        return known

    def remove(self) -> None:
        """Remove what is in the profile, and the folder if nothing else is there."""
        for path in (*self.paths, *(path for path, _ in self.failed)):
            with suppress(OSError):
                os.unlink(path)
        if not self.running:
            for name in (LEFT_OUT, TAKEN):
                with suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))
            with suppress(OSError):
                os.rmdir(self.folder)


def spools_in(folder: str) -> list[str]:
    """Return the names of the spools in the folder."""
    with suppress(OSError):
        return [name for name in os.listdir(folder) if name.endswith(PART)]
    return []


def wait_for_lives(process: str, folder: str) -> int:
    """Wait as long as what a process has become by an exec records, or may begin to.

    `process` is its number and, after a colon, when it began, in ticks.  Returns its number.
    """
    pid, until = int(process.partition(":")[0]), time.monotonic() + BEGINS_S
    while time.monotonic() < until and not wait_for_end(process, LIFE_LOOK_S):
        if _records(pid, folder):
            until = time.monotonic() + BEGINS_S
    return pid


def wait_for_end(process: str, most_s: float | None = None) -> bool:
    """Wait so long at most, or without a bound, and return whether it has ended.

    `process` is its number and, after a colon, when it began, in ticks: numbers come again.
    """
    pid, _, ticks = process.partition(":")
    with suppress(OSError):
        descriptor = pidfd_open(int(pid))
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                is_it = start_ticks(file.read()) == ticks
            return not is_it or bool(select.select([descriptor], [], [], most_s)[0])
        finally:
            os.close(descriptor)
    return True


def _records(pid: int, folder: str) -> bool:
    """Does it record?  (A spool that is empty may be about to get its lock: it is left alone.)"""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if not name.startswith(f"{pid}-") or not os.stat(path).st_size:
                continue
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            finally:
                os.close(file)
    return False


def _goes_on(path: str) -> bool:
    """Does the process still live that made it?  Another one of its number began later."""
    with suppress(OSError):
        if stat_fields(str(_pid(path)))[0] in b"ZX":  # its parent has not asked for its end yet
            return False
        age_s = time.monotonic() - began_ns(path) / 1e9
        lives_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began_since_boot(str(_pid(path)))
        return lives_s > age_s - SLACK_S and not _has_ended(path)
    return False


def _has_ended(path: str) -> bool:
    """Has it recorded its end, and is only being taken down?"""
    with suppress(PyhybridError):
        return spools.read(path).end is not None
    return False


def _end_with(run: int, paths: list[str]) -> bool:
    """May some of these end with the program?  One whose parent is none of them is a daemon."""
    family = {run, *map(_pid, paths)}
    return any(_parent(_pid(path)) in family for path in paths)


def _parent(pid: int) -> int:
    """Return its parent's number; 0: it is gone."""
    with suppress(OSError):
        return int(stat_fields(str(pid))[1])
    return 0


def _pid(path: str) -> int:
    return int(os.path.basename(path).partition("-")[0])


def began_ns(path: str) -> int:
    """Return when what the spool has began, which its name tells."""
    return int(os.path.basename(path).removesuffix(PART).partition("-")[2])
