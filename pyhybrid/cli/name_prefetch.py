"""Names and source positions for a spool that is finished, looked up in a fork of this process.

It begins when the spool is read, and says first the names, for which the tree must wait, and then,
while that is made, the source positions, for which inlined functions must.
"""

from types import TracebackType

from pyhybrid.assemble.forest import Forest
from pyhybrid.assemble.frames import native_words
from pyhybrid.cli.forked_work import Prefetch
from pyhybrid.errors import PyhybridError
from pyhybrid.spool.records import Spool
from pyhybrid.symbols.mapped import loader_of
from pyhybrid.symbols.prefetch import (
    Found,
    Prefetched,
    PrefetchedKernel,
    addresses_by_file,
    look_up,
    look_up_kernel,
    without_starts,
)
from pyhybrid.symbols.resolve import (
    Demangle,
    KernelTable,
    Loader,
    Symbol,
    open_kernel,
)
from pyhybrid.symbols.source_positions import OpenDebugInfo, default_reader


class NamePrefetch:
    """What assembled_of() and with_inlined() take, found by a fork, else when they ask.

    `with NamePrefetch(spool, forest, limit_bytes) as prefetch:` begins it.
    """

    def __init__(
        self, spool: Spool, forest: Forest, limit_bytes: int, is_long: bool = True
    ) -> None:
        """`limit_bytes` as of default_reader(), `is_long` as of ForkedWork()."""
        self._meta = spool.meta
        self.symbols: tuple[Loader, Demangle] | None = None
        self.reader: tuple[OpenDebugInfo, Demangle] | None = None
        try:
            load, demangle = loader_of(spool)
            open_file, _ = default_reader(limit_bytes)
        except PyhybridError:  # whoever asks will say so
            self._fork = Prefetch()
            return
        names: Found[Symbol] = {}

        def find_names() -> object:
            asked = addresses_by_file(spool, native_words(forest))
            names.update(look_up(load, asked))
            return names

        def find_positions() -> object:
            sampled = addresses_by_file(spool, forest.stack_words)
            return look_up(open_file, without_starts(sampled, names))

        def find_kernel() -> object:
            return look_up_kernel(spool, forest.stack_words)

        works = (find_names, find_kernel, find_positions)
        self._fork = Prefetch(*(works if is_long else ()))
        self.symbols = Prefetched(load, lambda: self._fork.value(0) or {}), demangle
        self.reader = Prefetched(open_file, lambda: self._fork.value(2) or {}), demangle

    def __enter__(self) -> "NamePrefetch":
        self._fork.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._fork.__exit__(kind, error, traceback)

    def kernel(self) -> KernelTable:
        """The kernel's functions."""
        found = self._fork.value(1)
        return PrefetchedKernel(found) if found else open_kernel(self._meta)
