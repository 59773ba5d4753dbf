"""Looks names up once for several spools: what one process's library has, another's has too.

Known by a file's path and build-id, so a file without a build-id, which may be another one by the
next spool, is read anew for each.  What cannot be read is tried, and noted, for each spool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.spool.content import Spool
from pyhybrid.symbols.kernel import KernelSymbols
from pyhybrid.symbols.mapped import loader_of
from pyhybrid.symbols.resolve import KernelTable, Loader, Symbol, Symbols, open_kernel
from pyhybrid.symbols.source_positions import Demangle


class _KnownSymbols(Struct):
    """Answer for a file with what is `found`; the file is opened for the rest."""

    found: dict[int, Symbol | None]
    open_file: Callable[[], Symbols]

    def resolve(self, addresses: list[int], /) -> list[Symbol | None]:
        found = self.found
        if asked := [each for each in addresses if each not in found]:
            found.update(zip(asked, self.open_file().resolve(asked), strict=True))
        return [found[each] for each in addresses]


class SharedNames:
    """Hold what was looked up for all spools so far."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[int, Symbol | None]] = {}
        self._kernels: dict[object, KernelSymbols] = {}
        self._demangle: Demangle | None = None

    def symbols(self, spool: Spool) -> tuple[Loader, Demangle] | None:
        """Return what assembled_of() takes for the spool; None: it finds out what is missing."""
        try:
            load, demangle = loader_of(spool)
        except PyhybridError:
            return None
        self._demangle = self._demangle or cache(demangle)

        def load_once(path: str, build_id: str | None) -> Symbols:
            if not build_id:
                return load(path, build_id)
            found = self._found.get((path, build_id))
            if found is not None:
                return _KnownSymbols(found, partial(load, path, build_id))
            symbols = load(path, build_id)
            return _KnownSymbols(self._found.setdefault((path, build_id), {}), lambda: symbols)

        return load_once, self._demangle

    def kernel(self, spool: Spool) -> Callable[[], KernelTable]:
        """Return what assembled_of() takes for the spool: a table for each boot."""

        def opened() -> KernelTable:
            boot = spool.meta.get("boot_id")
            if boot not in self._kernels:
                self._kernels[boot] = open_kernel(spool.meta)
            return self._kernels[boot]

        return opened
