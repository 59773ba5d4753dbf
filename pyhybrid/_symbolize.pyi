"""Names for addresses of ELF files (src/symbolize/): loaded by the finishing process only."""

from collections.abc import Sequence
from typing import final

@final
class ElfSymbols:
    """The function symbols of one ELF file, for looking addresses up.

    Raises OSError if the file cannot be read, ValueError if it is no ELF64 little-endian program or
    library or its headers are damaged, LookupError if `build_id` (hex) is given and the file
    carries another or none.  A damaged symbol table inside a sound file is left out, silently.
    """

    def __new__(cls, path: str | bytes, build_id: str | None = None) -> ElfSymbols: ...
    @property
    def build_id(self) -> str | None: ...
    def resolve(self, addresses: Sequence[int]) -> list[tuple[str, int, int, str] | None]:
        """Name each virtual address of the file: (name, start, size, source) or None.

        The name is as the file spells it, without "@VERSION", and bytes that are not UTF-8 are
        written "\\xNN".  `size` is the symbol's own; for one without a size (hand-written assembly)
        it is the range that it was found to name.  `source` is "symtab", "debugdata" or "dynsym".
        """

def demangle(name: str) -> str:
    """Return a C++ (Itanium ABI) symbol's readable name, and any other name unchanged."""
