"""ELF files that hold names and nothing else: what perf, gdb or readelf take symbols from.

A file has program headers (where the code would be), `.text` without bits, `.symtab` and
`.note.gnu.build-id`.  Format: System V ABI, chapters 4 and 5; elf(5); little endian, x86-64.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from pyhybrid.base.hashes import sha1

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_DYN, _X86_64 = 3, 62
_PT_LOAD, _PT_NOTE = 1, 4
_SYMTAB, _STRTAB, _NOTE, _NOBITS, _DYNSYM = 2, 3, 7, 8, 11
_ALLOC, _EXEC = 2, 4
_READ, _READ_EXEC = 4, 5  # PF_R, PF_R | PF_X
_GLOBAL_FUNCTION = 1 << 4 | 2  # STB_GLOBAL, STT_FUNC
_NT_GNU_BUILD_ID = 3
_BUILD_ID_SIZE = 20  # of SHA-1

# In the order in which they stand; the first, null, has no name.  `.dynsym` is empty: with one
# perf takes the file for the program's own, and looks no further.
_SECTIONS = ("", ".note.gnu.build-id", ".text", ".symtab", ".strtab", ".dynsym", ".shstrtab")
_TEXT = _SECTIONS.index(".text")


class Segment(NamedTuple):
    """A segment is code as the file would map it; addresses are the file's, sizes bytes."""

    start: int
    size: int
    file_offset: int


class Symbol(NamedTuple):
    """A symbol is a function at a virtual address of the file."""

    name: str
    start: int
    size: int


def disjoint(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Sort them by address, one each; none reaches into the next, where perf would find either."""
    ordered = sorted({symbol.start: symbol for symbol in symbols}.values(), key=lambda s: s.start)
    cut = [
        each._replace(size=min(each.size, after.start - each.start))
        for each, after in pairwise(ordered)
    ]
    return cut + ordered[-1:]


def elf_file(
    segments: Sequence[Segment], symbols: Iterable[Symbol], build_id: bytes = b""
) -> tuple[bytes, bytes]:
    """Return the file's build-id and its contents; without `build_id` it is a hash of these.

    `segments` are not empty, and by address.
    """
    symtab, strtab = _symbol_table(symbols)
    if build_id:
        return build_id, _assembled(segments, symtab, strtab, build_id)
    unmarked = _assembled(segments, symtab, strtab, bytes(_BUILD_ID_SIZE))
    build_id = sha1(unmarked, usedforsecurity=False).digest()
    return build_id, _assembled(segments, symtab, strtab, build_id)


def _symbol_table(symbols: Iterable[Symbol]) -> tuple[bytes, bytes]:
    entries, names = [bytes(_SYMBOL.size)], [b""]
    at = 1
    for name, start, size in symbols:
        raw = name.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
        entries.append(_SYMBOL.pack(at, _GLOBAL_FUNCTION, 0, _TEXT, start, size))
        names.append(raw)
        at += len(raw) + 1
    return b"".join(entries), b"\0".join(names) + b"\0"


def _assembled(segments: Sequence[Segment], symtab: bytes, strtab: bytes, build_id: bytes) -> bytes:
    first, last = segments[0], segments[-1]
    note = struct.pack("<III4s", 4, len(build_id), _NT_GNU_BUILD_ID, b"GNU\0") + build_id
    names = "\0".join(_SECTIONS).encode() + b"\0"
    contents = (b"", note, b"", symtab, strtab, bytes(_SYMBOL.size), names)
    note_at = _HEADER.size + _PROGRAM.size * (1 + len(segments))
    offsets = list(accumulate((len(body) + -len(body) % 8 for body in contents), initial=note_at))
    strings = _SECTIONS.index(".strtab")
    # kind, flags, address, offset, size; link, info, alignment, size of an entry
    sections = [
        (_NOTE, 0, 0, offsets[1], len(note), 0, 0, 4, 0),
        (
            *(_NOBITS, _ALLOC | _EXEC, first.start, first.file_offset),
            *(last.start + last.size - first.start, 0, 0, 16, 0),
        ),
        (_SYMTAB, 0, 0, offsets[3], len(symtab), strings, 1, 8, _SYMBOL.size),
        (_STRTAB, 0, 0, offsets[4], len(strtab), 0, 0, 1, 0),
        (_DYNSYM, 0, 0, offsets[5], _SYMBOL.size, strings, 1, 8, _SYMBOL.size),
        (_STRTAB, 0, 0, offsets[6], len(names), 0, 0, 1, 0),
    ]
    headers = [bytes(_SECTION.size)]
    for name, fields in zip(_SECTIONS[1:], sections, strict=True):
        headers.append(_SECTION.pack(names.index(name.encode() + b"\0"), *fields))
    programs = [_PROGRAM.pack(_PT_NOTE, _READ, note_at, 0, 0, len(note), len(note), 4)]
    programs += [
        _PROGRAM.pack(_PT_LOAD, _READ_EXEC, s.file_offset, s.start, s.start, 0, s.size, 4096)
        for s in segments
    ]
    header = _HEADER.pack(
        *(_IDENT, _DYN, _X86_64, 1, 0, _HEADER.size, offsets[-1], 0),
        *(_HEADER.size, _PROGRAM.size, len(programs)),
        *(_SECTION.size, len(headers), len(headers) - 1),
    )
    padded = (body + bytes(-len(body) % 8) for body in contents)
    return b"".join((header, *programs, *padded, *headers))
