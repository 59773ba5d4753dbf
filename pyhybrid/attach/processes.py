"""Python processes of this machine, as /proc shows them: which interpreter each runs, where its
functions are, and what may be done to it.

Nothing is done to a process here: its files are read, and a few words of its memory.

Source: System V ABI, chapter 4 (sections, symbols), proc(5), ptrace(2).
"""

from __future__ import annotations

import mmap
import os
import pwd
import re
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import BinaryIO, NamedTuple

from pyhybrid import _attach
from pyhybrid.capture.children import program_of
from pyhybrid.capture.finisher import start_ticks
from pyhybrid.capture.listening import MARK
from pyhybrid.capture.output_lock import PART
from pyhybrid.capture.started import FORK_SERVER, never_profiled
from pyhybrid.errors import UsageError

OLDEST = (3, 12)
OWN_VERSION = sys.version_info[:2]
_RUNTIME, _VERSION = "_PyRuntime", "Py_Version"
_LIBRARY = re.compile(r"libpython3\.\d+t?\.so")
_MAPPING = re.compile(r"^(\w+)-(\w+) (\S+) (\w+) \S+ \d+ *(.*)$", re.MULTILINE)
_DELETED = " (deleted)"
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_DYNSYM, _PT_LOAD, _ET_EXEC = 11, 1, 2
_SYSCALL, _SYSCALL_AT = b"\x0f\x05", "syscall instruction"
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_CAP_SYS_PTRACE = 19


class Mapping(NamedTuple):
    """A mapping is a line of /proc/PID/maps."""

    start: int
    end: int
    access: str
    file_offset: int
    path: str


class Image:
    """Read the file of a library or program that a process has mapped."""

    def __init__(self, pid: int, first: Mapping) -> None:
        """`first` is its mapping from the file's begin on.  Raises OSError, struct.error."""
        self.path, self._pid, self._first = first.path, pid, first
        with self._open() as file:
            self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        kind, _, _, _, programs, sections, _, _, size, n, s_size, n_sections, _ = (
            _HEADER.unpack_from(self._data)
        )
        found = (_PROGRAM.unpack_from(self._data, programs + i * size) for i in range(n))
        self._loads = [each for each in found if each[0] == _PT_LOAD]
        lowest = min((each[3] & -4096 for each in self._loads), default=0)
        self.bias = 0 if kind == _ET_EXEC else first.start - lowest
        self._sections = [
            _SECTION.unpack_from(self._data, sections + i * s_size) for i in range(n_sections)
        ]

    def _open(self) -> BinaryIO:
        file, of = self._first, f"/proc/{self._pid}"
        if not file.path.endswith(_DELETED):
            with suppress(FileNotFoundError):  # (chroot: the kernel's names are not its own)
                return open(f"{of}/root{file.path}", "rb")
        return open(f"{of}/map_files/{file.start:x}-{file.end:x}", "rb")

    def addresses(self, names: Iterable[str]) -> dict[str, int]:
        """Return where the process has those of the names that it exports."""
        for section in self._sections:
            if section[1] == _SHT_DYNSYM:
                return self._exported(section, names)
        return {}

    def _exported(self, section: tuple[int, ...], names: Iterable[str]) -> dict[str, int]:
        text = self._sections[section[6]]
        strings = self._data[text[4] : text[4] + text[5]]
        wanted = {  # (a name may be the end of another one)
            found.start(): name
            for name in names
            for found in re.finditer(re.escape(name.encode()) + b"\0", strings)
        }
        table = self._data[section[4] : section[4] + section[5] // 24 * 24]
        found = {}
        for at, _, _, index, value, _ in _SYMBOL.iter_unpack(table):
            if at in wanted and index:
                found[wanted[at]] = self.bias + value
        return found

    def number_at(self, address: int) -> int:
        """Return the 4 bytes that the file has for an address of the process; 0: none."""
        at = address - self.bias
        for _, _, offset, begin, _, in_file, *_ in self._loads:
            if begin <= at <= begin + in_file - 4:
                return int.from_bytes(self._data[offset + at - begin :][:4], "little")
        return 0

    def place_of(self, code: bytes, access: str, mappings: Iterable[Mapping]) -> int:
        """Return where the process has such code of this file; 0: nowhere."""
        for each in mappings:
            if each.path == self.path and access in each.access:
                at = self._data.find(
                    code, each.file_offset, each.file_offset + each.end - each.start
                )
                if at >= 0:
                    return each.start + at - each.file_offset
        return 0


class Process:
    """Look at one process.  Raises UsageError where it is none of Python's, or may not be seen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self.uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            raise UsageError(f"there is no process {pid}") from None
        try:
            self.mappings = list(_mappings(pid))
            self._images = _python_images(pid, self.mappings)
        except PermissionError as error:
            if os.geteuid() in (0, self.uid):
                raise refusal(pid, error) from None
            raise UsageError(
                f"process {pid} is another user's ({_user(self.uid)}): that user may, and root"
            ) from None
        except OSError as error:
            raise UsageError(f"process {pid} cannot be read: {error.strerror}") from None
        for image in self._images:
            self.addresses = image.addresses((_RUNTIME, _VERSION))
            if self.addresses.keys() == {_RUNTIME, _VERSION}:
                self.python = image
                break
        else:
            program = _link(f"/proc/{pid}/exe") or command_of(pid)
            what = f"it runs {program}" if program else "it has ended, or is the kernel's"
            raise UsageError(f"process {pid} is no Python {OLDEST[0]}.{OLDEST[1]} or newer: {what}")
        word = self.python.number_at(self.addresses[_VERSION])
        self.version = word >> 24, word >> 16 & 255, word >> 8 & 255
        self.is_free_threaded = bool(re.search(r"3\.\d+t\b", self.python.path))

    @property
    def runtime(self) -> int:
        """Return the address of _PyRuntime."""
        return self.addresses[_RUNTIME]

    @property
    def shown_version(self) -> str:
        """Return the version as people write it."""
        return ".".join(map(str, self.version))

    @cached_property
    def functions(self) -> dict[str, int]:
        """Return where the functions are that _attach.inject needs, and an instruction `syscall`.

        Raises UsageError."""
        found = self.python.addresses(_OF_PYTHON)
        for image in _libc_images(self.pid, self.mappings):
            found = {**image.addresses(_OF_LIBC), **found}
            if at := image.place_of(_SYSCALL, "x", self.mappings):
                found[_SYSCALL_AT] = at
        for name in (*_OF_PYTHON, *_OF_LIBC, _SYSCALL_AT):
            if name not in found:
                raise UsageError(f"process {self.pid} has no {name}: it cannot be attached to")
        return found

    @cached_property
    def root(self) -> str:
        """Return the folder that it has as its root, as in a container; "": it is this one's."""
        own, theirs = (f"/proc/{of}" for of in ("self", self.pid))
        with suppress(OSError):
            same = (os.path.samefile(own + of, theirs + of) for of in ("/ns/mnt", "/root"))
            return "" if all(same) else f"{theirs}/root"
        return ""

    @cached_property
    def own_number(self) -> int:
        """Return its number as it knows that itself: another one in a namespace of its own."""
        return _own_number(f"/proc/{self.pid}")

    def interpreter(self) -> tuple[bool, bool, int, list[tuple[int, int, bool]]]:
        """Return what _attach.interpreter does, with the numbers of its threads as they are here.

        Raises UsageError."""
        try:
            alive, ends, switches, threads = _attach.interpreter(self.pid, self.runtime)
        except OSError as error:
            raise refusal(self.pid, error) from None
        if self.own_number != self.pid:
            folder = f"/proc/{self.pid}/task"
            here = {_own_number(f"{folder}/{name}"): int(name) for name in os.listdir(folder)}
            threads = [(here[own], at, holds) for own, at, holds in threads if own in here]
        return alive, ends, switches, threads

    @cached_property
    def started(self) -> float:
        """Return since when it runs, in seconds of time.time()."""
        with open(f"/proc/{self.pid}/stat", "rb") as file:
            ticks = int(start_ticks(file.read()))
        since_boot = ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot

    @property
    def listens_by(self) -> int:
        """Return the signal by which it listens (capture/listening.py); 0: it does not."""
        for each in self.mappings:
            found = re.match(rf"/memfd:{MARK}(\d+)", each.path)
            if found and _catches(self.pid, int(found[1])):
                return int(found[1])
        return 0

    @property
    def is_profiled(self) -> bool:
        """Does it write a spool of ours?"""
        return bool(spool_of(self.pid))


@contextmanager
def while_it_lives(pid: int) -> Iterator[None]:
    """Raise UsageError where the system does not know the process any more: it has just ended."""
    try:
        yield
    except (ProcessLookupError, FileNotFoundError) as error:
        if error.filename is None or str(error.filename).startswith(f"/proc/{pid}/"):
            raise refusal(pid, ProcessLookupError()) from None
        raise


def below(pid: int, wants: Callable[[str], bool]) -> Iterator[Process]:
    """Yield the Python processes that it has started or forked, and they, the elder first, those
    whose script or module it `wants`; not those that serve others (capture/started.py)."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (parent := status_of(int(name), "PPid")):
            parents[int(name)] = int(parent)
    found = [pid]
    for each in found:
        found += sorted(child for child, parent in parents.items() if parent == each)
    for number in found[1:]:
        words = words_of(number)
        what = never_profiled(words)
        if what == FORK_SERVER and words_of(parents[number]) == words:
            what = ""  # of what it forks
        if not what and wants(program_of(words)):
            with suppress(UsageError):  # it is no Python, or has ended
                yield Process(number)


def spool_of(pid: int) -> str:
    """Return the path of the spool that a process writes; "": none that may be seen."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        links = (_link(f"{folder}/{name}") or "" for name in os.listdir(folder))
        return next((link for link in links if link.endswith((PART, ".part"))), "")
    return ""


def _own_number(folder: str) -> int:
    """Return the number of a process or thread in its own namespace (pid_namespaces(7))."""
    numbers = _status(folder, "NSpid") or os.path.basename(folder)
    return int(numbers.split()[-1])


_OF_PYTHON = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyDict_New",
    "Py_CompileString",
    "PyEval_EvalCode",
    "PyErr_Clear",
    "Py_DecRef",
    "Py_AddPendingCall",
)
_OF_LIBC = ("__errno_location", "pthread_sigmask", "pthread_create", "pthread_detach", "munmap")


def _mappings(pid: int) -> Iterator[Mapping]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for start, end, access, offset, path in _MAPPING.findall(maps.read()):
            yield Mapping(int(start, 16), int(end, 16), access, int(offset, 16), path)


def _firsts(mappings: list[Mapping]) -> Iterator[Mapping]:
    """Yield that of each file which begins where the file does."""
    seen = set()
    for each in mappings:
        if each.file_offset == 0 and each.path.startswith("/") and each.path not in seen:
            seen.add(each.path)
            yield each


def _python_images(pid: int, mappings: list[Mapping]) -> list[Image]:
    program = _link(f"/proc/{pid}/exe")
    libraries = [each for each in _firsts(mappings) if _LIBRARY.search(each.path)]
    programs = [each for each in _firsts(mappings) if each.path == program]
    return list(_images(pid, [*libraries, *programs]))


def _libc_images(pid: int, mappings: list[Mapping]) -> Iterator[Image]:
    names = re.compile(r"/(libc|libpthread)[.-][^/]*so[^/]*$")
    yield from _images(pid, [each for each in _firsts(mappings) if names.search(each.path)])


def _images(pid: int, mappings: list[Mapping]) -> Iterator[Image]:
    for each in mappings:
        with suppress(struct.error, FileNotFoundError, ProcessLookupError):
            yield Image(pid, each)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def words_of(pid: int) -> list[str]:
    """Return the words of its command; none: it is not known, or it has none."""
    return [os.fsdecode(each) for each in _command(pid)[:-1]]


def command_of(pid: int) -> str:
    """Return its command as a line to print; empty: it is not known, or it has none."""
    return b" ".join(_command(pid)).decode("utf-8", "replace").strip()


def _command(pid: int) -> list[bytes]:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().split(b"\0")
    return []


def status_of(pid: int, key: str) -> str:
    """Return a line of its status; empty: there is none."""
    return _status(f"/proc/{pid}", key)


def _status(folder: str, key: str) -> str:
    with suppress(OSError), open(f"{folder}/status", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == key:
                return value.strip()
    return ""


def n_filters(pid: int) -> int:
    """Return how many filters of system calls it has (seccomp(2)); those of a container are ours,
    too."""
    return int(status_of(pid, "Seccomp_filters") or "0")


def _catches(pid: int, signal: int) -> bool:
    return bool(int(status_of(pid, "SigCgt") or "0", 16) >> signal - 1 & 1)


def processes(wants: Callable[[str], bool] = lambda _: True) -> Iterator[Process]:
    """Yield the Python processes that may be seen, by number: those whose script or module it
    `wants`."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if wants(program_of(words_of(pid))):
            with suppress(UsageError):
                yield Process(pid)


def refusal(pid: int, error: OSError) -> UsageError:
    """Return what says that the kernel lets nobody do this to it, and what would permit it."""
    if isinstance(error, ProcessLookupError):
        return UsageError(f"process {pid} has ended")
    listens = "or start the program with PYHYBRID_LISTEN=1"
    scope = 0
    with suppress(OSError, ValueError), open(_YAMA, encoding="ascii") as file:
        scope = int(file.read())
    capable = bool(int(status_of(os.getpid(), "CapEff") or "0", 16) >> _CAP_SYS_PTRACE & 1)
    why = f"process {pid}: the kernel refuses it"
    if scope == 1 and not capable:
        return UsageError(
            f"{why} (kernel.yama.ptrace_scope is 1): run this as root, "
            f"`sysctl kernel.yama.ptrace_scope=0`, {listens}"
        )
    if scope == 2 and not capable:
        return UsageError(
            f"{why} (kernel.yama.ptrace_scope is 2): run this with CAP_SYS_PTRACE, {listens}"
        )
    if scope == 3:
        return UsageError(f"{why} (kernel.yama.ptrace_scope is 3, until the next boot): {listens}")
    if status_of(os.getpid(), "Seccomp") == "2":
        return UsageError(
            f"{why} (a seccomp filter, or a missing capability): in a container "
            f"`--cap-add=SYS_PTRACE`, {listens}"
        )
    return UsageError(f"{why} ({error.strerror}): run this with CAP_SYS_PTRACE, {listens}")
