"""Names of code in no module, from what the runtimes of the process wrote about it.

- perf map, /tmp/perf-PID.map: a line `START SIZE NAME` for each function, numbers in hexadecimal
  (tools/perf/Documentation/jit-interface.txt in the Linux source);
- jitdump, jit-PID.dump: binary records (tools/perf/Documentation/jitdump-specification.txt).

Both become one table of disjoint functions.  Code memory is used again: what is recorded later ends
every earlier function that it overlaps.  Samples are named without regard to their time, so code
that ran in a place before other code came there has no name, or that code's.

Nothing in these files is trusted: damaged parts are skipped, and sizes are checked.
"""

import contextlib
import os
import re
import stat
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import cache
from heapq import heappop, heappush
from itertools import islice
from operator import le
from typing import Any

from pyhybrid.base.pseudo_frames import JIT
from pyhybrid.frameworks.torch import generated, is_generated

JIT_MAP, JITDUMP = SOURCES = ("jit map", "jitdump")

MAX_BYTES = 256 << 20  # of one file: the rest is not read
MAX_FUNCTIONS = 1 << 20
MAX_NAME = 4096  # bytes
MAX_SIZE = 1 << 31  # of a function, bytes: x86 code cannot jump further within itself
ADDRESS_LIMIT = 1 << 47

_LINE = re.compile(
    rb"^[ \t]*(?:0[xX])?([0-9a-fA-F]{1,16})[ \t]+(?:0[xX])?([0-9a-fA-F]{1,16})[ \t]+(\S.*)$",
    re.MULTILINE,
)
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_ORDERS = {b"DTiJ": "<", b"JiTD": ">"}  # the magic's bytes -> struct's byte order
_HEADER_SIZE = 40
_LOAD, _MOVE = 0, 1


class JitFunctions:
    """Hold functions by absolute address; `add_*` is called in the order of their making."""

    def __init__(self) -> None:
        self.full = False  # there were more than MAX_FUNCTIONS
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._names: list[bytes] = []
        self._sources: list[str] = []
        self._order: list[int] | None = None  # the functions that are left, by address
        self._sorted_starts: list[int] = []

    def add(self, start: int, size: int, name: bytes, source: str) -> None:
        """Add one more function; not where it cannot be one."""
        end = start + size
        if not (0 < size <= MAX_SIZE and end <= ADDRESS_LIMIT and name):
            return
        if len(self._starts) >= MAX_FUNCTIONS:
            self.full = True
            return
        self._starts.append(start)
        self._ends.append(end)
        self._names.append(name[:MAX_NAME])
        self._sources.append(source)
        self._order = None

    def add_perf_map(self, data: bytes) -> None:
        """Add the lines of a perf map; our own for code without a name are none."""
        for line in _LINE.finditer(data):
            start, size, name = line.groups()
            name = name.rstrip()
            if name != JIT.encode():
                self.add(int(start, 16), int(size, 16), name, JIT_MAP)

    def add_jitdump(self, data: bytes, pid: int | None = None) -> None:
        """Add the functions that a jitdump names; a torn record ends it.

        Raises ValueError where it is no jitdump, or that of a process other than `pid`.
        """
        order = _ORDERS.get(data[:4])
        if order is None or len(data) < _HEADER_SIZE:
            raise ValueError("not a jitdump")
        version, header_size, _, _, of_pid = struct.unpack_from(order + "5I", data, 4)
        if version != 1:
            raise ValueError(f"jitdump of version {version}")
        if pid is not None and of_pid != pid:
            raise ValueError(f"of another process ({of_pid})")
        record = struct.Struct(order + "IIQ")
        at, loaded = max(header_size, _HEADER_SIZE), dict[int, tuple[int, bytes]]()
        while at + record.size <= len(data):
            kind, size, _ = record.unpack_from(data, at)
            body, at = at + record.size, at + size
            if size < record.size or at > len(data):
                break
            if kind == _LOAD:
                self._load(order, data, body, at, loaded)
            elif kind == _MOVE:
                self._move(order, data, body, at, loaded)

    def resolve(self, address: int) -> tuple[str, int, int] | None:
        """Return name, start and size (bytes) of the function at `address`."""
        found = self._find(address)
        return None if found is None else self._function(found)

    def source(self, address: int) -> str | None:
        """Return what named the function at `address`: one of SOURCES."""
        found = self._find(address)
        return None if found is None else self._sources[found]

    def functions(self) -> list[tuple[str, int, int]]:
        """Return all of them by address, as `resolve` has them."""
        return [self._function(number) for number in self._sort()]

    def _load(
        self, order: str, data: bytes, at: int, end: int, loaded: dict[int, tuple[int, bytes]]
    ) -> None:
        name_at = at + 40
        name_end = data.find(b"\0", name_at, end)
        if name_end < 0:
            return
        start, size, index = struct.unpack_from(order + "3Q", data, at + 16)
        if name_end + 1 + size <= end:  # the code itself follows
            name = data[name_at : min(name_end, name_at + MAX_NAME)]
            self.add(start, size, name, JITDUMP)
            if len(loaded) < MAX_FUNCTIONS:
                loaded[index] = size, name

    def _move(
        self, order: str, data: bytes, at: int, end: int, loaded: dict[int, tuple[int, bytes]]
    ) -> None:
        """Move a function; where it was it keeps its name, too, until other code comes there."""
        if at + 48 > end:
            return
        start, _, index = struct.unpack_from(order + "3Q", data, at + 24)
        if index in loaded:
            size, name = loaded[index]
            self.add(start, size, name, JITDUMP)

    def _find(self, address: int) -> int | None:
        order = self._sort()
        at = bisect_right(self._sorted_starts, address) - 1
        return order[at] if at >= 0 and address < self._ends[order[at]] else None

    def _function(self, number: int) -> tuple[str, int, int]:
        start = self._starts[number]
        name = self._names[number].decode("utf-8", "backslashreplace")
        name = _CONTROL.sub(lambda c: f"\\x{ord(c[0]):02x}", name)
        return name, start, self._ends[number] - start

    def _sort(self) -> list[int]:
        if self._order is None:
            starts, ends = self._starts, self._ends
            order = sorted(range(len(starts)), key=starts.__getitem__)
            in_order = map(ends.__getitem__, order)
            if not all(map(le, in_order, map(starts.__getitem__, islice(order, 1, None)))):
                order = self._last(order)
            self._order, self._sorted_starts = order, [starts[number] for number in order]
        return self._order

    def _last(self, order: list[int]) -> list[int]:
        """Return those of `order` that no later function overlaps.

        This is one pass by address.  `above`: the functions that reach beyond the current start,
        newest on top (those that ended go when they come up).  `alive`: those that nothing has
        overlapped so far, oldest on top; those that ended are beyond reach.
        """
        starts, ends = self._starts, self._ends
        above: list[int] = []
        alive: list[int] = []
        left: list[int] = []
        for number in order:
            start = starts[number]
            while alive and alive[0] < number:
                other = heappop(alive)
                if ends[other] <= start:
                    left.append(other)
            while above and ends[-above[0]] <= start:
                heappop(above)
            if not above or -above[0] < number:
                heappush(alive, number)
            heappush(above, -number)
        return sorted(left + alive, key=starts.__getitem__)


def trusted_uids(spool_path: str) -> set[int]:
    """Return whose files are used for a run: root's, one's own, and those of who ran it."""
    uids = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        uids.add(os.stat(spool_path).st_uid)  # root may finish another user's
    return uids


def read_trusted(path: str, uids: Collection[int]) -> bytes:
    """Return the file at `path`, up to MAX_BYTES of it.

    Raises OSError where it cannot be read; ValueError where it is no regular file, or is one that
    belongs to none of `uids` (/tmp is everyone's).
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_uid not in uids:
            raise ValueError("belongs to another user")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(min(status.st_size, MAX_BYTES))
    finally:
        os.close(descriptor)


def read_jit_functions(meta: dict[str, Any], spool_path: str) -> tuple[JitFunctions, list[str]]:
    """Return what the files have that the profiled process found when it stopped (meta `perf_map`
    and `jitdumps`), and notes on those that have nothing."""
    functions, notes = JitFunctions(), list[str]()
    perf_map, dumps, pid = meta.get("perf_map"), meta.get("jitdumps") or [], meta.get("pid")
    files = [(perf_map, JIT_MAP)] if perf_map else []
    files += [(path, JITDUMP) for path in dumps]
    uids = trusted_uids(spool_path)
    for path, kind in files:
        try:
            data = read_trusted(path, uids)
            if kind == JIT_MAP:
                functions.add_perf_map(data)
            else:
                functions.add_jitdump(data, pid)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            notes.append(f"{path}: no names of JIT code: {why}")
    if functions.full:
        notes.append(f"more than {MAX_FUNCTIONS:,} JIT functions: some have no name")
    return functions, notes


# Functions that a framework's compiler made: its kernels have one symbol, its Python files names.
#
# Which files, and what is in them, frameworks/torch.toml has.  They are in a cache, which is there
# at the end of the run, when names are found; else the names stay as they are.

N_OPERATORS = 3  # that are named of a graph


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(generated()[name], re.MULTILINE | re.DOTALL)


def _cache_of(path: str) -> str:
    """Return the folder in which are the folders of the files."""
    return os.path.dirname(os.path.dirname(path))


class Generated:
    """Hold those of one run; files are read when a name is wanted."""

    def __init__(self, spool_path: str, python_files: Iterable[str]) -> None:
        """Take `python_files`: those whose functions ran."""
        self._spool_path = spool_path
        self._files = set(filter(is_generated, python_files))
        self._texts: dict[str, str] = {}
        self._kernels: dict[str, list[tuple[str, str]]] = {}  # of a cache: text and name

    def native_name(self, library: str, symbol: str) -> str | None:
        """Return a kernel's name where it was asked for: `cpp_fused_add_gelu_0 [inductor]`."""
        is_kernel = _pattern("symbol").match(symbol)
        found = _pattern("library").search(library) if is_kernel and self._files else None
        if not is_kernel or not found:
            return None
        text = self._read(library[: found.end(1)] + generated()["text"]).strip()
        known = self._kernels_in(_cache_of(library))
        name = next((name for begin, name in known if text.startswith(begin)), None)
        return name and f"{name}{symbol[is_kernel.end() :]} [{generated()['maker']}]"

    def python_name(self, file: str, name: str) -> str:
        """Return the function's name; that which runs a graph names it: `call [inductor 0_forward:
        addmm]`."""
        runs = generated()["functions"]
        if file not in self._files or not any(fnmatchcase(name, each) for each in runs):
            return name
        text = self._read(file)
        graph = _pattern("graph").search(text)
        if not graph:
            return name
        operators = self._operators(text)
        more = ["…"] if len(operators) > N_OPERATORS else []
        made_of = ", ".join([*operators[:N_OPERATORS], *more])
        return f"{name} [{generated()['maker']} {graph[1]}{': ' * bool(made_of)}{made_of}]"

    def _operators(self, text: str) -> list[str]:
        """Return what a graph was made of, but for what computes nothing."""
        rows = (each.split(", ") for each in _pattern("operators").findall(text))
        names = (each.removeprefix(generated()["prefix"]) for row in rows for each in row)
        return [each for each in dict.fromkeys(names) if each and each not in generated()["views"]]

    def _kernels_in(self, folder: str) -> list[tuple[str, str]]:
        if folder not in self._kernels:
            texts = (self._read(file) for file in self._files if _cache_of(file) == folder)
            found = (each for text in texts for each in _pattern("kernels").findall(text))
            self._kernels[folder] = sorted((text.strip(), name) for name, text in found)
        return self._kernels[folder]

    def _read(self, path: str) -> str:
        """Return it, empty where it is not there, or not to be trusted."""
        if path not in self._texts:
            try:
                data = read_trusted(path, trusted_uids(self._spool_path))
            except (OSError, ValueError):
                data = b""
            self._texts[path] = data.decode("utf-8", "replace")
        return self._texts[path]
