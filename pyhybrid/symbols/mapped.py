"""Names of libraries whose file is gone, or is another one by now: the process still has them.

The finishing process looks while the profiled one waits for it.  `/proc/PID/map_files` leads to the
file itself, whatever happened to its name, where one may follow it (root may, proc(5)).  Else the
symbol table that the library was loaded with is read out of the process's memory, as far as the
kernel lets another process of the user do so (Yama's ptrace_scope): that has the exported functions
alone.  In both ways the build-id must be the one that was recorded, so a later process of the same
number does no harm.

Source: System V ABI, chapter 5 (dynamic section, hash table); DT_GNU_HASH: glibc's dl-lookup.c.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pyhybrid.capture.attached import ATTACHED_AS
from pyhybrid.spool.content import Module, Spool
from pyhybrid.symbols.resolve import Loader, Symbol, Symbols, default_loader
from pyhybrid.symbols.source_positions import Demangle

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_DYNAMIC, _PT_NOTE = 2, 4
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_NT_GNU_BUILD_ID = 3
_MAX_BYTES = 1 << 28  # of a table: what claims more is none

_MAPPING = re.compile(r"^(\w+)-(\w+) \S+ (\w+) \S+ \d+ +(.*)$", re.MULTILINE)
_DELETED = " (deleted)"
_MEMFD = "/memfd:"


class _Mapping(NamedTuple):
    """A mapping is a line of /proc/PID/maps."""

    range: str  # as map_files has it
    start: int
    file_offset: int
    path: str


def _mappings(pid: int) -> list[_Mapping]:
    """Return those of files; none where the process is gone, or may not be looked at."""
    with suppress(OSError):
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            found = _MAPPING.findall(maps.read())
        return [
            _Mapping(f"{start}-{end}", int(start, 16), int(offset, 16), path)
            for start, end, offset, path in found
        ]
    return []


def name_nameless(spool: Spool) -> None:
    """Name libraries that were loaded from a descriptor (`/proc/self/fd/3`) after the file in
    memory that it was, if the process is still there."""
    nameless = [each for each in spool.modules.values() if each.path.startswith("/proc/")]
    if not nameless:
        return
    path_at = {each.start: each.path for each in _mappings(_pid(spool))}
    for module in nameless:
        path = path_at.get(module.base, "")
        if path.startswith(_MEMFD):
            module.path = path.removesuffix(_DELETED)


def _pid(spool: Spool) -> int:
    return int(spool.meta.get(ATTACHED_AS) or spool.meta.get("pid") or 0)


def loader_of(spool: Spool) -> tuple[Loader, Demangle]:
    """Do as default_loader(); what that cannot read is sought in the process that has it mapped.
    One in a container has files of its own: these are read, and no other one without a build-id.

    Raises PyhybridError.
    """
    load, demangle = default_loader()
    has_own_files = ATTACHED_AS in spool.meta

    def load_either(path: str, build_id: str | None) -> Symbols:
        try:
            if has_own_files:
                with suppress(OSError, LookupError, ValueError):
                    return load(f"/proc/{_pid(spool)}/root{path}", build_id)
                if not build_id:
                    raise FileNotFoundError(path)
            return load(path, build_id)
        except (OSError, LookupError, ValueError):
            for module in spool.modules.values():
                if build_id and (module.path, module.build_id) == (path, build_id):
                    for find in (_by_its_file, _in_memory):
                        with suppress(OSError, LookupError, ValueError, struct.error):
                            return find(load, _pid(spool), module)
            raise

    return load_either, demangle


def _by_its_file(load: Loader, pid: int, module: Module) -> Symbols:
    ranges = [each.range for each in _mappings(pid) if each.start == module.base]
    if not ranges:
        raise ProcessLookupError(pid)
    return load(f"/proc/{pid}/map_files/{ranges[0]}", module.build_id)


def _in_memory(_: Loader, pid: int, module: Module) -> Symbols:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:

        def read(address: int, size: int) -> bytes:
            if not 0 <= size <= _MAX_BYTES:
                raise ValueError("no table")
            memory.seek(address)
            data = memory.read(size)
            if len(data) < size:
                raise ValueError("not mapped")
            return data

        return _Exported(read, module.base, module.build_id)


class _Exported:
    """Read the exported functions of a loaded library."""

    def __init__(self, read: Callable[[int, int], bytes], base: int, build_id: str) -> None:
        """Use `read(address, size)`.  Raises ValueError, LookupError, OSError, struct.error."""
        self._read, self._base = read, base
        _, _, _, _, at, _, _, _, size, n, *_ = _HEADER.unpack(read(base, _HEADER.size))
        programs = list(_PROGRAM.iter_unpack(read(base + at, size * n)))
        notes = ((base + p[3], p[6]) for p in programs if p[0] == _PT_NOTE)
        if build_id not in (each for note in notes for each in _build_ids(read(*note))):
            raise LookupError("another build")
        tags: dict[int, int] = {}
        for kind, _, _, address, _, _, size, _ in programs:
            if kind == _PT_DYNAMIC:
                tags |= dict(struct.iter_unpack("<QQ", read(base + address, size // 16 * 16)))
        names = read(self._at(tags[_DT_STRTAB]), tags[_DT_STRSZ])
        table = read(self._at(tags[_DT_SYMTAB]), _SYMBOL.size * self._n_symbols(tags))
        self._functions = sorted(_functions(table, names))
        self._starts = [start for start, _, _ in self._functions]

    def _at(self, value: int) -> int:
        """Return it absolute, as the loader makes some addresses in the dynamic section."""
        return value if value >= self._base else self._base + value

    def _n_symbols(self, tags: dict[int, int]) -> int:
        if _DT_HASH in tags:
            _, n = struct.unpack("<II", self._read(self._at(tags[_DT_HASH]), 8))
            return int(n)
        at = self._at(tags[_DT_GNU_HASH])
        n_buckets, first, n_bloom, _ = struct.unpack("<IIII", self._read(at, 16))
        buckets = at + 16 + 8 * n_bloom
        last = max(struct.unpack(f"<{n_buckets}I", self._read(buckets, 4 * n_buckets)))
        if last < first:
            return int(first)
        chains = buckets + 4 * n_buckets
        while not self._read(chains + 4 * (last - first), 4)[0] & 1:
            last += 1
        return int(last) + 1

    def resolve(self, addresses: list[int], /) -> list[Symbol | None]:
        """Return the symbols that cover `addresses`, in their order."""
        return [self._covering(address) for address in addresses]

    def _covering(self, address: int) -> Symbol | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start, size, name = self._functions[at]
        return (name, start, size, "dynsym") if address < start + size else None


def _functions(table: bytes, names: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield (start, size, name) of those that are defined."""
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(table):
        if section and size and info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) and name < len(names):
            text = names[name : names.index(b"\0", name)]
            yield value, size, text.decode("utf-8", "backslashreplace")


def _build_ids(notes: bytes) -> Iterator[str]:
    at = 0
    while at + _NOTE.size <= len(notes):
        n_name, n_body, kind = _NOTE.unpack_from(notes, at)
        name = at + _NOTE.size
        body = name + n_name + -n_name % 4
        if kind == _NT_GNU_BUILD_ID and notes[name : name + n_name] == b"GNU\0":
            yield notes[body : body + n_body].hex()
        at = body + n_body + -n_body % 4
