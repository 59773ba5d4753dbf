"""File names for this run alone, found free and writable before the program starts."""

import os
from collections.abc import Iterator
from itertools import count

from pyhybrid.errors import OutputError, PyhybridError

PROFILE, PART = ".pyhybrid", ".pyhybrid.part"  # what follows the prefix
# SQLite's, of a file being written.
LONGEST_SUFFIX = len(".4194304.4194304.pyhybrid.4194304.tmp-journal")


def check_writable(folder: str) -> None:
    """Raise OutputError where a file cannot be made in it."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"the output folder {folder!r} is not writable")


def check_folder(prefix: str) -> None:
    """Find out now, not after an hour, that nothing can be written there: OutputError."""
    folder = os.path.dirname(prefix)
    if not os.path.isdir(folder):
        raise OutputError(f"the output folder {folder!r} does not exist")
    check_writable(folder)
    name = os.fsencode(os.path.basename(prefix))
    if len(name) + LONGEST_SUFFIX > os.pathconf(folder, "PC_NAME_MAX"):
        raise OutputError(f"the output name {os.path.basename(prefix)!r} is too long")
    if os.path.isdir(prefix + PROFILE):
        raise OutputError(f"{prefix}{PROFILE} is a folder")


class Claim:
    """A spool, locked until its profile is made: `prefix` is what all names begin with.

    Where another process has the name, it is followed by `suffix`: .PID, .PID.2, .PID.3...; such a
    name has not been used, for in containers numbers repeat.  Raises PyhybridError.
    """

    def __init__(self, prefix: str, pid: int) -> None:
        for suffix in _suffixes(pid):
            self.prefix, self.suffix = prefix + suffix, suffix
            self.spool = self.prefix + PART
            try:
                found = _claim_fresh(self.prefix) if suffix else _claim(self.spool)
            except OSError as error:
                raise PyhybridError(f"cannot write {self.spool}: {error.strerror}") from None
            if found is not None:
                self._lock = found
                return

    @property
    def descriptor(self) -> int:
        """Of the file, which has the lock; -1 once the program has closed it.

        Daemons close all, and use the numbers themselves.
        """
        try:
            known = self._lock < 0 or os.path.samestat(os.fstat(self._lock), self._status)
        except AttributeError:  # not kept yet
            known = True
        except OSError:
            known = False
        return self._lock if known else -1

    def keep(self) -> None:
        """Out of the program's way, whose numbers are low.  Raises PyhybridError."""
        import fcntl

        low, floor = self._lock, min(256, os.sysconf("SC_OPEN_MAX") // 2)
        try:
            self._lock = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, floor)
        except OSError as error:
            raise PyhybridError(f"no descriptor for the lock: {error.strerror}") from None
        self._status = os.fstat(self._lock)
        os.close(low)

    def close(self) -> None:
        """Also in a forked child: the profile is the parent's."""
        if self.descriptor >= 0:
            os.close(self._lock)
        self._lock = -1

    def give_up(self) -> None:
        """Leave nothing."""
        os.unlink(self.spool)
        self.close()


class NoClaim:
    """Where there is no profile: what would be its spool goes nowhere."""

    prefix = suffix = spool = ""

    def __init__(self) -> None:
        self.descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def keep(self) -> None:
        """The sampler has a descriptor of its own."""

    def close(self) -> None:
        """Nothing is kept."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    give_up = close


def _suffixes(pid: int) -> Iterator[str]:
    yield ""
    yield f".{pid}"
    yield from (f".{pid}.{number}" for number in count(2))


def _claim(path: str, flags: int = 0) -> int | None:
    """An empty file at `path`, locked: its descriptor.  None if another process has it.

    What a killed run left there becomes PATH.old.
    """
    import fcntl

    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                if not os.fstat(descriptor).st_size:
                    return descriptor
                os.replace(path, path + ".old")
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _claim_fresh(prefix: str) -> int | None:
    """The same of a name that no run has used.

    Who makes the spool's file has the name, and it is there until the profile is.
    """
    try:
        descriptor = _claim(prefix + PART, os.O_EXCL)
    except FileExistsError:
        return None
    if descriptor is not None and os.path.exists(prefix + PROFILE):
        os.unlink(prefix + PART)
        os.close(descriptor)
        return None
    return descriptor
