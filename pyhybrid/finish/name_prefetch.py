"""Names and source positions for a spool that is finished, looked up in a fork of this process.

It begins when the spool is read, and sends first the names, for which the tree must wait, and then,
while that is made, the source positions, for which inlined functions must.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from pyhybrid._columns import ADDRESS_BITS, ADDRESS_MASK, KERNEL_LIMIT, NATIVE_LIMIT
from pyhybrid.assemble.frames import native_words
from pyhybrid.assemble.import_calls import words_outside_imports
from pyhybrid.assemble.trees import Forest
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.finish.forked_work import Prefetch
from pyhybrid.spool.content import Spool
from pyhybrid.symbols.kernel import KernelFunction
from pyhybrid.symbols.mapped import loader_of
from pyhybrid.symbols.resolve import (
    KERNEL_ADDRESS_MASK,
    KernelTable,
    Loader,
    Symbol,
    kernel_address,
    open_kernel,
)
from pyhybrid.symbols.source_positions import Demangle, OpenDebugInfo, default_reader

# What another process looks up, ahead of when it is asked for.
#
# What will be asked is known as soon as the spool is read: the addresses in its stacks.  What is
# found can be sent (`marshal`); whoever needs it asks as ever, and `Prefetched`, `PrefetchedKernel`
# answer.  What is missing there, since a file could not be opened, or the other process came to
# nothing, they look up themselves: so notes and errors are the same.

type File = tuple[str, str | None]  # path and build-id, as Loader and OpenDebugInfo take them
# What was found of a file's addresses; None: nothing is known of that one.
type Found[T] = dict[File, dict[int, T | None]]


class Resolver[T](Protocol):
    """Resolve addresses by one file's symbols, or its debug information."""

    def resolve(self, addresses: list[int], /) -> list[T | None]: ...


type OpenFile[T] = Callable[[str, str | None], Resolver[T]]


def addresses_by_file(spool: Spool, words: Iterable[int]) -> dict[File, list[int]]:
    """Return the native words among `words`, as the files' virtual addresses."""
    of_file: defaultdict[File, set[int]] = defaultdict(set)
    for word in words:
        module = spool.modules.get(word >> ADDRESS_BITS) if word < NATIVE_LIMIT else None
        if module:
            of_file[module.path, module.build_id or None].add(word & ADDRESS_MASK)
    return {file: sorted(addresses) for file, addresses in of_file.items()}


def look_up[T](open_file: OpenFile[T], wanted: dict[File, list[int]]) -> Found[T]:
    """Look up the addresses of all files that can be opened, in their order."""
    found: Found[T] = {}
    for file, addresses in wanted.items():
        with suppress(OSError, LookupError, ValueError):
            answers = open_file(*file).resolve(addresses)
            found[file] = dict(zip(addresses, answers, strict=True))
    return found


def without_starts(wanted: dict[File, list[int]], names: Found[Symbol]) -> dict[File, list[int]]:
    """Return the addresses within a function, not at its start: there nothing is inlined."""

    def within(file: File) -> list[int]:
        symbols = names.get(file, {})
        return [
            each for each in wanted[file] if not (known := symbols.get(each)) or each != known[1]
        ]

    return {file: within(file) for file in wanted}


class Prefetched[T](Struct):
    """Open a file as `open_file` does; `found()`, asked when it is needed, answers for it."""

    open_file: OpenFile[T]
    found: Callable[[], Found[T]]

    def __call__(self, path: str, build_id: str | None) -> Resolver[T]:
        answers = self.found().get((path, build_id))
        if answers is None:
            return self.open_file(path, build_id)
        return _Answers(answers, lambda: self.open_file(path, build_id))


class _Answers[T](Struct):
    found: dict[int, T | None]
    open_file: Callable[[], Resolver[T]]

    def resolve(self, addresses: list[int], /) -> list[T | None]:
        if not self.found.keys() >= set(addresses):
            return self.open_file().resolve(addresses)
        return [self.found[each] for each in addresses]


# Is the table known; functions by address, as KernelFunction's fields; where the kernel's code
# begins and ends.
type KernelAnswers = tuple[
    bool,
    dict[int, tuple[str, int, int | None, str | None] | None],
    tuple[int, int] | None,
]


class PrefetchedKernel:
    """Answer as a table of the kernel's functions that look_up_kernel() found."""

    def __init__(self, answers: KernelAnswers) -> None:
        self._known, self._functions, self._text = answers

    def __bool__(self) -> bool:
        return self._known

    def resolve(self, address: int, /) -> KernelFunction | None:
        """Return one of those that were looked up."""
        function = self._functions[address]
        return function and KernelFunction(*function)

    def text(self) -> tuple[int, int] | None:
        return self._text


def look_up_kernel(spool: Spool, words: Iterable[int]) -> KernelAnswers | None:
    """Return what the kernel's words among `words` are; None: there are none.  (The kernel makes
    its table when it is read, and it is read whole.)"""
    in_kernel = (word for word in words if word >= KERNEL_LIMIT)
    addresses = {kernel_address(word) & KERNEL_ADDRESS_MASK for word in in_kernel}
    if not addresses:
        return None
    known = open_kernel(spool.meta)
    functions = {each: known.resolve(each) for each in addresses}
    plain = {each: function and (*function,) for each, function in functions.items()}
    return bool(known), plain, known.text()


class NamePrefetch:
    """Find what assembled_of() and with_inlined() take, by a fork, else when they ask.

    `with NamePrefetch(spool, forest, limit_bytes) as prefetch:` begins it.
    """

    def __init__(
        self,
        spool: Spool,
        forest: Forest,
        limit_bytes: int,
        is_long: bool = True,
        imports: bool = True,
    ) -> None:
        """Take `limit_bytes` as default_reader() does, `is_long` as ForkedWork(), `imports` as
        with_inlined()."""
        self._meta = spool.meta
        self.symbols: tuple[Loader, Demangle] | None = None
        self.reader: tuple[OpenDebugInfo, Demangle] | None = None
        try:
            load, demangle = loader_of(spool)
            open_file, _ = default_reader(limit_bytes)
        except PyhybridError:  # whoever asks will report it
            self._fork = Prefetch()
            return
        names: Found[Symbol] = {}

        def find_names() -> object:
            asked = addresses_by_file(spool, native_words(forest))
            names.update(look_up(load, asked))
            return names

        def find_positions() -> object:
            sampled = addresses_by_file(
                spool, forest.stack_words if imports else words_outside_imports(spool, forest)
            )
            return look_up(open_file, without_starts(sampled, names))

        def find_kernel() -> object:
            return look_up_kernel(spool, forest.stack_words)

        works = (find_names, find_kernel, find_positions)
        self._fork = Prefetch(*(works if is_long else ()))
        self.symbols = Prefetched(load, lambda: self._fork.value(0) or {}), demangle
        self.reader = Prefetched(open_file, lambda: self._fork.value(2) or {}), demangle

    def __enter__(self) -> NamePrefetch:
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
        """Return the kernel's functions."""
        found = self._fork.value(1)
        return PrefetchedKernel(found) if found else open_kernel(self._meta)
