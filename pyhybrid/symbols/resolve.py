"""Names for native words: symbol tables where there are any, else function starts.

A native word is (module id, module-relative address), see src/base/frame.h.  Every distinct word is
looked up once, all words of a module together.  What is known decides the name:

    symbol table       its symbol, demangled                  source symtab, debugdata, dynsym
    linkage stub       at::Foo::run(int)@plt                  source plt
    exported object    at::Foo::{virtual#3}                   source exported data
    a compiler's       its name where it was asked for        source symtab, dynsym (jit.py)
    unwind table only  libfoo.so!+0x1a2b30 (function start)   source fde
    module only        libfoo.so!?                            source none
    no module          its name by the runtime that made it   source jit map, jitdump (jit.py)
    nothing            [jit]                                  source none

The lookup itself is the extension module `_symbolize`, loaded here and only here, so that pure
Python (and tests) can work with another `Loader`.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyhybrid._columns import ADDRESS_BITS, ADDRESS_MASK
from pyhybrid.base.pseudo_frames import JIT, PLT
from pyhybrid.capture.machine import boot_id
from pyhybrid.errors import PyhybridError
from pyhybrid.symbols.jit import Generated, read_jit_functions
from pyhybrid.symbols.kernel import KernelFunction, KernelSymbols, kernel_build_id
from pyhybrid.symbols.source_positions import Demangle, is_newer

if TYPE_CHECKING:
    from pyhybrid.spool.content import Module, Spool

# Names of functions that have no symbol, by the slot of the exported object in which they stand
# (exported_data.c): a vtable, or another table of functions.
#
# `_symbolize` spells such a place as the object's symbol and an index, in a vtable's secondary
# tables two. What people read:
#
#     _ZTVN2at3FooE[3]     at::Foo::{virtual#3}            its fourth virtual function
#     _ZTVN2at3FooE[1][3]  at::Foo::{base#1}::{virtual#3}  in its second virtual table
#     ...DispatchStub...   at::native::add_stub [AVX2]     PyTorch's kernel for that CPU capability
#     table[3]             table[3]                        the fourth word of any other object
#
# No name has a blank between its parts but PyTorch's: labels.shorten_native() takes what stands
# before a blank for a return type.

_PLACE = re.compile(r"(.*?)(?:\[(\d+)\])?\[(\d+)\]", re.DOTALL)
_VTABLE = "vtable for "
# at::native::DispatchStub<TYPE, at::native::STUB_DECLARE_DISPATCH_type>::AVX2, in older PyTorch
# without the suffix (aten/src/ATen/native/DispatchStub.h).
_KERNEL = re.compile(r"(?:.*::)?DispatchStub<.*, ([\w:]+?)(?:_DECLARE_DISPATCH_type)?>::(\w+)")


def slot_name(place: str, demangle: Callable[[str], str]) -> str:
    """Return what the function is called that stands at `place`."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return place
    symbol, table, slot = match.groups()
    name = demangle(symbol)
    if name.startswith(_VTABLE):
        base = f"{{base#{table}}}::" if table else ""
        return f"{name.removeprefix(_VTABLE)}::{base}{{virtual#{slot}}}"
    if kernel := _KERNEL.fullmatch(name):
        return f"{kernel[1]} [{kernel[2]}]"
    return f"{name}[{slot}]"


KERNEL_ADDRESS_MASK = (1 << 64) - 1


def kernel_address(word: int) -> int:
    """Return where the kernel's frame is that a word means: absolute, negative (as int64)."""
    return (word & ADDRESS_MASK) - (1 << ADDRESS_BITS)


Symbol = tuple[str, int, int, str]  # name as in the table, start, size (bytes), source


class Symbols(Protocol):
    """Find one ELF file's symbols; addresses are the file's virtual addresses."""

    def resolve(self, addresses: list[int], /) -> list[Symbol | None]:
        """Return the symbols that cover `addresses`, in their order."""


# (path, build-id in hexadecimal or None) -> the file's symbols.  Raises OSError where the file
# cannot be read, LookupError where it is another build, ValueError where it is no ELF file.
Loader = Callable[[str, str | None], Symbols]


class NativeFunction(NamedTuple):
    """Hold what a native frame is: module id (0: none), start (relative to it), size, names."""

    module: int
    start: int | None
    size: int | None
    name: str
    symbol: str | None
    source: str


class KernelTable(Protocol):
    """Find the kernel's functions as KernelSymbols does; it is false where nothing is known."""

    def __bool__(self) -> bool: ...
    def resolve(self, address: int, /) -> KernelFunction | None: ...
    def text(self) -> tuple[int, int] | None: ...


def open_kernel(meta: Mapping[str, Any]) -> KernelSymbols:
    """Return the running kernel's table, if it is the one that ran: empty if not."""
    return KernelSymbols() if _is_same_kernel(meta) else KernelSymbols(os.devnull)


def _is_same_kernel(meta: Mapping[str, Any]) -> bool:
    booted = meta.get("boot_id")
    return bool(booted) and booted == boot_id()


def default_loader() -> tuple[Loader, Demangle]:
    """Return the extension module's lookup and demangler; PyhybridError where it was not built."""
    try:
        native = importlib.import_module("pyhybrid._symbolize")
    except ImportError as error:
        raise PyhybridError(f"native names cannot be looked up: {error}") from error
    return native.ElfSymbols, native.demangle


class Symbolizer:
    """Name the native words of one spool; `notes` has what it could not read, and why."""

    def __init__(
        self,
        spool: Spool,
        load: Loader | None,
        demangle: Demangle,
        kernel: Callable[[], KernelTable] | None = None,
    ) -> None:
        """Take `load`; None: there is no reader of symbol tables; `kernel` opens another table of
        the kernel's functions than that of /proc/kallsyms."""
        self.notes: list[str] = []
        self._spool = spool
        self._load = load
        self._demangle = demangle
        self._demangled: dict[str, str] = {}
        self.generated = Generated(spool.path, (code.file for code in spool.codes.values()))
        self._open_kernel = kernel or partial(open_kernel, spool.meta)
        self._kernel: KernelTable | None = None

    def name(self, words: Iterable[int]) -> dict[int, NativeFunction]:
        """Return the function of every native word."""
        named: dict[int, NativeFunction] = {}
        for number, group in groupby(sorted(words), lambda word: word >> ADDRESS_BITS):
            module = self._spool.modules.get(number)
            if module is None:
                self._name_jit(number, list(group), named)
            else:
                self._name_module(module, list(group), named)
        return named

    def name_kernel(self, address: int) -> KernelFunction | None:
        """Return the kernel's function at the absolute address; None: it hides it."""
        if self._kernel is None:
            self._kernel = self._open_kernel()
            if not self._kernel:
                same = _is_same_kernel(self._spool.meta)
                why = "hides them (kernel.kptr_restrict)" if same else "is not the one that ran"
                self._note(f"no names of the kernel's functions: the kernel {why}")
        return self._kernel.resolve(address)

    def kernel_text(self) -> tuple[int, int] | None:
        """Return where the kernel's code begins and ends, if a frame of it was named."""
        return self._kernel.text() if self._kernel else None

    def kernel_build_id(self) -> str | None:
        """Return the kernel's build-id, if a frame of it was named."""
        return kernel_build_id() if self._kernel else None

    def _name_jit(self, number: int, words: list[int], named: dict[int, NativeFunction]) -> None:
        """Name words in no module, or (`number` not 0) in one that the spool lacks."""
        named.update(dict.fromkeys(words, NativeFunction(0, None, None, JIT, None, "none")))
        if number:
            return
        functions, notes = read_jit_functions(self._spool.meta, self._spool.path)
        for note in notes:
            self._note(note)
        for word in words:
            found, source = functions.resolve(word), functions.source(word)
            if found and source:
                raw, start, size = found
                named[word] = NativeFunction(
                    0, start, size, self._readable(raw, source), raw, source
                )

    def _name_module(
        self, module: Module, words: list[int], named: dict[int, NativeFunction]
    ) -> None:
        found = self._resolve(module, [word & ADDRESS_MASK for word in words])
        functions, short = self._spool.functions, os.path.basename(module.path)
        for word, symbol in zip(words, found, strict=True):
            if symbol is not None:
                raw, start, size, source = symbol
                name = self.generated.native_name(module.path, raw) or self._readable(raw, source)
                named[word] = NativeFunction(module.id, start, size, name, raw, source)
            elif start_word := functions.get(word, 0):
                start = start_word & ADDRESS_MASK
                name = f"{short}!+{start:#x}"
                named[word] = NativeFunction(module.id, start, None, name, None, "fde")
            else:
                named[word] = NativeFunction(module.id, None, None, f"{short}!?", None, "none")

    def _resolve(self, module: Module, addresses: list[int]) -> list[Symbol | None]:
        if self._load:
            try:
                if module.path == VDSO:
                    return self._resolve_vdso(self._load, module, addresses)
                if not module.build_id and is_newer(module.path, module.load_ns, self._spool.meta):
                    raise ValueError("it has no build-id, and was changed since it was loaded")
                return self._load(module.path, module.build_id or None).resolve(addresses)
            except LookupError:
                self._note(f"{module.path} is another build than the one that ran: no names")
            except (OSError, ValueError) as error:
                self._note(f"{module.path}: no names: {getattr(error, 'strerror', None) or error}")
        return [None] * len(addresses)

    def _resolve_vdso(
        self, load: Loader, module: Module, addresses: list[int]
    ) -> list[Symbol | None]:
        if not module.build_id:  # another kernel's would look the same
            return [None] * len(addresses)
        file = open_vdso()
        try:
            found = load(f"/proc/self/fd/{file}", module.build_id).resolve(addresses)
        finally:
            os.close(file)
        return [symbol and (full_name(symbol[0]), *symbol[1:]) for symbol in found]

    def _note(self, note: str) -> None:
        if note not in self.notes:  # a library can be loaded twice
            self.notes.append(note)

    def _readable(self, raw: str, source: str) -> str:
        name = self._demangled.get(raw)
        if name is None:
            if source == "exported data":
                name = slot_name(raw, self._demangle)
            elif source == "plt":
                name = self._demangle(raw.removesuffix(PLT)) + PLT
            else:
                name = self._demangle(raw)
            self._demangled[raw] = name
        return name


# The kernel's code in every process (`man 7 vdso`): an ELF file that is in no file system.

VDSO = "[vdso]"  # in /proc/PID/maps, and of its module in a spool


def open_vdso() -> int:
    """Return a descriptor of a file without a name with this process's vdso.

    Raises OSError where there is none.  It is the profiled process's if the build-id is the same.
    """
    image = _vdso()
    import tempfile  # here, because little of a run's end takes longer to import

    with tempfile.TemporaryFile(buffering=0) as file:  # not all builds of CPython have memfd_create
        file.write(image)
        return os.dup(file.fileno())


@cache
def _vdso() -> bytes:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        ranges = re.findall(rf"^(\w+)-(\w+) .*{re.escape(VDSO)}$", maps.read(), re.MULTILINE)
    if not ranges:
        raise FileNotFoundError(2, "no vdso is mapped", VDSO)
    start, end = (int(each, 16) for each in ranges[0])
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        return memory.read(end - start)


def full_name(symbol: str) -> str:
    """Return the longer of its two names: libc's own function has the shorter one, too."""
    return symbol if symbol.startswith("__vdso_") else f"__vdso_{symbol}"
