"""Names of the kernel's functions, from /proc/kallsyms (man 5 proc_kallsyms).

The addresses hold until the machine boots again; a reader without the right to see them
(kernel.kptr_restrict) finds zeros.
"""

import struct
from bisect import bisect_right
from typing import NamedTuple

KALLSYMS = "/proc/kallsyms"
NOTES = "/sys/kernel/notes"

_TEXT = b"tTwW"
_DIGITS = 16
_TYPE = _DIGITS + 1  # where the type stands in a line: `ffffffff81000000 T _stext`


_NOTE_HEAD = struct.Struct("=III")  # sizes of name and content, type (man 5 elf, "Notes")
_NT_GNU_BUILD_ID = 3


class KernelFunction(NamedTuple):
    """Hold a function of the kernel or of its module `module`; addresses are absolute."""

    name: str
    start: int
    size: int | None
    module: str | None


class KernelSymbols:
    """Hold the table of the running kernel, read once."""

    def __init__(self, path: str = KALLSYMS) -> None:
        """Read it; it is empty where it cannot be read, or hides its addresses."""
        try:
            with open(path, "rb") as file:
                table = file.read()
        except OSError:
            table = b""
        lines = table.splitlines()
        lines.sort()  # addresses have their leading zeros; of one address the global name is first
        if lines and lines[-1].startswith(b"0" * _DIGITS):
            table, lines = b"", []
        self._lines = lines
        first, last = (_address(table, b"T " + name) for name in (b"_text", b"_etext"))
        self._text = (first, last) if first and last else None

    def __bool__(self) -> bool:
        """Is anything known?"""
        return bool(self._lines)

    def resolve(self, address: int) -> KernelFunction | None:
        """Return the function at the absolute address."""
        at = bisect_right(self._lines, b"%016x~" % address) - 1
        while at >= 0 and self._lines[at][_TYPE] not in _TEXT:
            at -= 1
        if at < 0:
            return None
        digits = self._lines[at][:_DIGITS]
        while at and self._same(at - 1, digits):
            at -= 1
        after = bisect_right(self._lines, digits + b"~")
        start = int(digits, 16)
        size = int(self._lines[after][:_DIGITS], 16) - start if after < len(self._lines) else None
        name, _, module = self._lines[at][_TYPE + 2 :].decode("ascii", "replace").partition("\t")
        return KernelFunction(name, start, size, module.strip("[]") or None)

    def text(self) -> tuple[int, int] | None:
        """Return where the kernel's own code begins and ends."""
        return self._text

    def _same(self, at: int, digits: bytes) -> bool:
        line = self._lines[at]
        return line.startswith(digits) and line[_TYPE] in _TEXT


def _address(table: bytes, type_and_name: bytes) -> int | None:
    at = table.find(b" " + type_and_name + b"\n") - _DIGITS
    return int(table[at : at + _DIGITS], 16) if at >= 0 else None


def kernel_build_id(path: str = NOTES) -> str | None:
    """Return the build-id of the running kernel, by which perf knows it."""
    try:
        with open(path, "rb") as file:
            notes = file.read()
    except OSError:
        return None
    at = 0
    while at + _NOTE_HEAD.size <= len(notes):
        n_name, n_content, kind = _NOTE_HEAD.unpack_from(notes, at)
        name = at + _NOTE_HEAD.size
        content = name + (n_name + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[name : name + n_name] == b"GNU\0":
            return notes[content : content + n_content].hex()
        at = content + (n_content + 3 & ~3)
    return None
