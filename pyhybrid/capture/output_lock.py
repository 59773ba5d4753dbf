"""File names for this run alone, found free and writable before the program starts."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from itertools import count
from posix import close, fstat  # at the end `os` may have others

from pyhybrid.base.light import suppress
from pyhybrid.errors import OutputError, PyhybridError

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Iterator

PROFILE, PART = ".pyhybrid", ".pyhybrid.part"  # what follows the prefix
RANKS = ".ranks"  # the same, of the folder where several ranks leave theirs
# SQLite's, of a file being written.
LONGEST_SUFFIX = len(".4194304.4194304.pyhybrid.4194304.tmp-journal")


def check_writable(folder: str) -> None:
    """Raise OutputError where a file cannot be made in it."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"the output folder {folder!r} is not writable")


def prefix_of(output: str | None) -> str:
    """Return what the names of a run's files begin with, where this is its option `output`."""
    prefix = output or "out"
    if prefix.endswith(os.sep):
        prefix = os.path.join(prefix, "out")
    if os.path.basename(prefix) != PROFILE:  # `-o x.pyhybrid` names that file
        prefix = prefix.removesuffix(PROFILE)
    return prefix


def check_folder(prefix: str, *, makes: bool = True) -> list[str]:
    """Find out now, not after an hour, that nothing can be written there: OutputError.

    If it `makes` them, folders that are not there are made; returns those, the outermost first.
    """
    folder = os.path.dirname(prefix)
    made = _made(folder) if makes else []
    if not os.path.isdir(folder):
        raise OutputError(f"the output folder {folder!r} does not exist")
    try:
        check_writable(folder)
        name = os.fsencode(os.path.basename(prefix))
        if len(name) + LONGEST_SUFFIX > os.pathconf(folder, "PC_NAME_MAX"):
            raise OutputError(f"the output name {os.path.basename(prefix)!r} is too long")
        if os.path.isdir(prefix + PROFILE):
            raise OutputError(f"{prefix}{PROFILE} is a folder")
    except OutputError:
        remove_folders(made)
        raise
    return made


def _made(folder: str) -> list[str]:
    made: list[str] = []
    missing = [folder]
    while not os.path.lexists(missing[-1]):
        missing.append(os.path.dirname(missing[-1]))
    try:
        for each in reversed(missing[:-1]):
            with suppress(FileExistsError):  # another run has just made it
                os.mkdir(each)
                made.append(each)
    except OSError as error:
        remove_folders(made)
        raise OutputError(
            f"the output folder {folder!r} cannot be made: {error.strerror}"
        ) from None
    return made


def remove_folders(made: list[str]) -> None:
    """Remove those of `check_folder`, unless something is in them by now."""
    with suppress(OSError):
        for each in reversed(made):
            os.rmdir(each)


class Descriptor:
    """Keep one of ours, which the program may close: daemons close all, and use the numbers."""

    def __init__(self, number: int) -> None:
        self._number, self._file = number, _file_of(number)

    @property
    def number(self) -> int:
        """Return the number; -1 once it is closed."""
        try:
            ours = self._number >= 0 and _file_of(self._number) == self._file
        except OSError:
            ours = False
        return self._number if ours else -1

    def move(self) -> None:
        """Move it out of the program's way, whose numbers are low.  Raises OSError."""
        low, floor = self._number, min(256, os.sysconf("SC_OPEN_MAX") // 2)
        self._number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, floor)
        os.close(low)

    def close(self) -> None:
        if self.number >= 0:
            with suppress(OSError):  # a filter of the program's refuses it (seccomp)
                close(self._number)
        self._number = -1


def _file_of(descriptor: int) -> tuple[int, int]:
    status = fstat(descriptor)
    return status.st_dev, status.st_ino


class _Aside:
    """Set aside what a killed run left at `path`: it is PATH.old from now on, until `undo`.

    What that was before stays open, to come back.
    """

    def __init__(self, path: str) -> None:
        self._path, self._old = path, path + ".old"
        self._older: Descriptor | None = None
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._older = Descriptor(os.open(self._old, flags))
        os.replace(path, self._old)

    def keep(self) -> None:
        """Keep it as a claim's descriptor is kept."""
        if self._older:
            try:
                self._older.move()
            except OSError:  # what has been replaced is not worth the run
                self._older.close()

    def close(self) -> None:
        """Close it: there is no way back from now on."""
        if self._older:
            self._older.close()

    def undo(self) -> None:
        """Make both what they were; what is at `path` goes.  Raises OSError."""
        os.replace(self._old, self._path)
        source = self._older.number if self._older else -1
        if source >= 0:
            status = os.fstat(source)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            target = os.open(self._old, flags, stat.S_IMODE(status.st_mode))
            at = 0
            while sent := os.sendfile(target, source, at, 1 << 24):
                at += sent
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.close(target)


class Claim:
    """Claim a spool, locked until its profile is made: `prefix` is what all names begin with.

    Where another process has the name, it is followed by `suffix`: .PID, .PID.2, .PID.3...; such a
    name has not been used, for in containers numbers repeat.  Raises PyhybridError.
    """

    def __init__(self, prefix: str, pid: int) -> None:
        self._aside: _Aside | None = None
        for suffix in _suffixes(pid):
            self.prefix, self.suffix = prefix + suffix, suffix
            self.spool = self.prefix + PART
            try:
                found = self._fresh() if suffix else self._usual()
            except OSError as error:
                raise PyhybridError(f"cannot write {self.spool}: {error.strerror}") from None
            if found is not None:
                self._lock = Descriptor(found)
                return

    def _usual(self) -> int | None:
        """Return the descriptor of an empty file, locked.  It is None if another process has it."""
        while True:
            descriptor = _locked(self.spool)
            if descriptor is None:
                self._drop_aside()  # the name is that one's
                return None
            try:
                if _is_at(descriptor, self.spool):
                    if not os.fstat(descriptor).st_size:
                        return descriptor
                    self._drop_aside()
                    self._aside = _Aside(self.spool)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _fresh(self) -> int | None:
        """Return the same of a name that no run has used.

        Who makes the spool's file has the name, and it is there until the profile is.
        """
        try:
            descriptor = _locked(self.spool, os.O_EXCL)
        except FileExistsError:
            return None
        if descriptor is not None and os.path.exists(self.prefix + PROFILE):
            os.unlink(self.spool)
            os.close(descriptor)
            return None
        return descriptor

    @property
    def descriptor(self) -> int:
        """Return the file's, which has the lock; -1 once the program has closed it."""
        return self._lock.number

    def keep(self) -> None:
        """Move it out of the program's way.  Raises PyhybridError."""
        try:
            self._lock.move()
        except OSError as error:
            raise PyhybridError(f"no descriptor for the lock: {error.strerror}") from None
        if self._aside:
            self._aside.keep()

    def close(self) -> None:
        """Close it, also in a forked child: the profile is the parent's."""
        self._lock.close()
        self._drop_aside()

    def give_up(self) -> None:
        """Leave what was there before, and nothing else."""
        try:
            if self._aside:
                self._aside.undo()
            else:
                os.unlink(self.spool)
        except FileNotFoundError:  # what was set aside is gone, or the spool
            with suppress(FileNotFoundError):
                os.unlink(self.spool)
        self.close()

    def _drop_aside(self) -> None:
        if self._aside:
            self._aside.close()
        self._aside = None


class NoClaim:
    """Stand for a claim where there is no profile: what would be its spool goes nowhere."""

    prefix = suffix = spool = ""

    def __init__(self) -> None:
        try:
            self.descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # there may be no /dev
            from pyhybrid.base.system_calls import memfd_create

            self.descriptor = memfd_create("pyhybrid")

    def keep(self) -> None:
        """Do nothing: the sampler has a descriptor of its own."""

    def close(self) -> None:
        """Keep nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    give_up = close


def _suffixes(pid: int) -> Iterator[str]:
    yield ""
    yield f".{pid}"
    yield from (f".{pid}.{number}" for number in count(2))


def _locked(path: str, flags: int = 0) -> int | None:
    """Return the descriptor of the file at `path`, made if it is missing.  None: another has it."""
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # somebody's FIFO, in a shared folder
            raise OSError(errno.EINVAL, "it is no regular file")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(descriptor: int, path: str) -> bool:
    return os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path))
