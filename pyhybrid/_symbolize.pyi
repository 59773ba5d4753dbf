"""Names for addresses of ELF files (src/symbolize/): loaded by the finishing process only."""

from collections.abc import Sequence
from typing import final

@final
class ElfSymbols:
    """The function symbols of one ELF file, for looking addresses up.

    Raises OSError if the file cannot be read, ValueError if it is no ELF64 little-endian program or
    library or its headers are damaged, LookupError if `build_id` (hex) is given and the file
    carries another or none.  A damaged symbol table inside a sound file is left out, silently.
    `debug_roots`: as DwarfLines', for a file without `.symtab`.
    """

    def __new__(
        cls, path: str | bytes, build_id: str | None = None, debug_roots: str = "/usr/lib/debug"
    ) -> ElfSymbols: ...
    @property
    def build_id(self) -> str | None: ...
    def resolve(self, addresses: Sequence[int]) -> list[tuple[str, int, int, str] | None]:
        """Name each virtual address of the file: (name, start, size, source) or None.

        The name is as the file spells it, without "@VERSION", and bytes that are not UTF-8 are
        written "\\xNN".  `size` is the symbol's own; for one without a size (hand-written assembly)
        it is the range that it was found to name.  `source` is "symtab", "debug file",
        "debugdata", "dynsym", "plt": a stub of the procedure linkage table, "NAME@plt" for what it
        jumps to, or "exported data": then the name is that of an object that points to the
        function, with the place in it: "_ZTV1A[3]", "table[0]" (symbols/resolve.py).
        Vtables of classes that are not exported have the names of their types.
        """

@final
class DwarfLines:
    """The source lines and inlined functions of one ELF file, from DWARF.

    The DWARF is the file's own, or that of its split debug file: by build-id below the folders in
    `debug_roots` (separated by colons), else by `.gnu_debuglink`.  Never over the network.  Raises
    what ElfSymbols raises, and OSError with ENODATA if there is no DWARF, or EFBIG if there is more
    than `limit_bytes` (0: any size).
    """

    def __new__(
        cls,
        path: str | bytes,
        build_id: str | None = None,
        debug_roots: str = "/usr/lib/debug",
        limit_bytes: int = 0,
    ) -> DwarfLines: ...
    def resolve(
        self, addresses: Sequence[int]
    ) -> list[tuple[str | None, int, list[tuple[str | None, str | None, int]], str | None] | None]:
        """Look virtual addresses of the file up: (file, line, inlined, function) or None.

        `inlined` lists the inlined calls that contain the address, innermost first: the function
        that was inlined, and file and line of its call.  `function` is the one whose code contains
        them.  Names are linkage names where there are any; None, or 0 for a line, is "not known".
        For a caller's frame ask for the return address - 1.  Ask for all addresses of a file in
        one call: each compilation unit that is hit is read once.
        """

def demangle(name: str) -> str:
    """Return a C++ (Itanium ABI) or Rust symbol's readable name, and any other name unchanged."""
