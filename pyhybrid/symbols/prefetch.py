"""Names and source positions that another process looks up, ahead of when they are asked for.

What will be asked is known as soon as the spool is read: the addresses in its stacks.  What is
found can be sent (`marshal`); whoever needs it asks as ever, and `Prefetched`, `PrefetchedKernel`
answer.  What is missing there, since a file could not be opened, or the other process came to
nothing, they look up themselves: so notes and errors are the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from pyhybrid._profile import ADDRESS_BITS, ADDRESS_MASK, KERNEL_LIMIT, NATIVE_LIMIT
from pyhybrid.spool.records import Spool
from pyhybrid.symbols.kernel import KernelFunction
from pyhybrid.symbols.resolve import (
    KERNEL_ADDRESS_MASK,
    Symbol,
    kernel_address,
    open_kernel,
)

type File = tuple[str, str | None]  # path and build-id, as Loader and OpenDebugInfo take them
# What was found of a file's addresses; None: nothing is known of that one.
type Found[T] = dict[File, dict[int, T | None]]


class Resolver[T](Protocol):
    """One file's symbols, or its debug information."""

    def resolve(self, addresses: list[int], /) -> list[T | None]: ...


type OpenFile[T] = Callable[[str, str | None], Resolver[T]]


def addresses_by_file(spool: Spool, words: Iterable[int]) -> dict[File, list[int]]:
    """The native words among `words`, as the files' virtual addresses."""
    of_file: defaultdict[File, set[int]] = defaultdict(set)
    for word in words:
        module = spool.modules.get(word >> ADDRESS_BITS) if word < NATIVE_LIMIT else None
        if module:
            of_file[module.path, module.build_id or None].add(word & ADDRESS_MASK)
    return {file: sorted(addresses) for file, addresses in of_file.items()}


def look_up[T](open_file: OpenFile[T], wanted: dict[File, list[int]]) -> Found[T]:
    """Of all files that can be opened, in their order."""
    found: Found[T] = {}
    for file, addresses in wanted.items():
        with suppress(OSError, LookupError, ValueError):
            answers = open_file(*file).resolve(addresses)
            found[file] = dict(zip(addresses, answers, strict=True))
    return found


def without_starts(wanted: dict[File, list[int]], names: Found[Symbol]) -> dict[File, list[int]]:
    """The addresses that lie within a function, not at its start: there nothing is inlined."""

    def within(file: File) -> list[int]:
        symbols = names.get(file, {})
        return [
            each for each in wanted[file] if not (known := symbols.get(each)) or each != known[1]
        ]

    return {file: within(file) for file in wanted}


@dataclass(slots=True)
class Prefetched[T]:
    """Opens a file as `open_file` does; `found()`, asked when it is needed, answers for it."""

    open_file: OpenFile[T]
    found: Callable[[], Found[T]]

    def __call__(self, path: str, build_id: str | None) -> Resolver[T]:
        answers = self.found().get((path, build_id))
        if answers is None:
            return self.open_file(path, build_id)
        return _Answers(answers, lambda: self.open_file(path, build_id))


@dataclass(slots=True)
class _Answers[T]:
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
    """A table of the kernel's functions, as look_up_kernel() found it."""

    def __init__(self, answers: KernelAnswers) -> None:
        self._known, self._functions, self._text = answers

    def __bool__(self) -> bool:
        return self._known

    def resolve(self, address: int, /) -> KernelFunction | None:
        """Of those that were looked up."""
        function = self._functions[address]
        return function and KernelFunction(*function)

    def text(self) -> tuple[int, int] | None:
        return self._text


def look_up_kernel(spool: Spool, words: Iterable[int]) -> KernelAnswers | None:
    """What the kernel's words among `words` are; None: there are none.  (The kernel makes its table
    when it is read, and it is read whole.)"""
    in_kernel = (word for word in words if word >= KERNEL_LIMIT)
    addresses = {kernel_address(word) & KERNEL_ADDRESS_MASK for word in in_kernel}
    if not addresses:
        return None
    known = open_kernel(spool.meta)
    functions = {each: known.resolve(each) for each in addresses}
    plain = {each: function and (*function,) for each, function in functions.items()}
    return bool(known), plain, known.text()
