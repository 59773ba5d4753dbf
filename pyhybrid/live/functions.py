"""The functions of all processes that are followed, by number, and which one a frame's word is.

Python functions have their names at once.  Native ones are named when they are first seen, all new
ones of a library together; until then, and where there is no symbol, they have their library's.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Hashable, Iterable

from pyhybrid._columns import (
    ADDRESS_BITS,
    ADDRESS_MASK,
    C_CALL_LIMIT,
    KERNEL_LIMIT,
    LINE_LIMIT,
    NATIVE_LIMIT,
    OFFSET_BITS,
    OFFSET_MASK,
    OFFSET_UNKNOWN,
    PSEUDO_LIMIT,
    PSEUDO_UNKNOWN_PYTHON,
    REGION_CAUSE,
    REGION_LIMIT,
)
from pyhybrid.assemble.own_work import OUR_PYTHON, OURS, OWN_FOLDER, PROGRAM
from pyhybrid.base.pseudo_frames import (
    BRIDGED,
    DECORATED,
    IN_KERNEL,
    JIT,
    KERNEL,
    OWN_WORK,
    pseudo_frame,
)
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.spool.content import Code, Spool
from pyhybrid.symbols.mapped import loader_of
from pyhybrid.symbols.plumbing import (
    IMPORT_FILES,
    IMPORT_KEPT,
    is_instrumentation,
    is_interpreter,
    is_own_library,
    is_passage,
    is_plumbing,
    is_wrapper,
    starts_threads,
)
from pyhybrid.symbols.resolve import Loader, NativeFunction, Symbolizer, Symbols
from pyhybrid.symbols.source_positions import Demangle
from pyhybrid.views.labels import shorten_native

PYTHON, NATIVE, IN_THE_KERNEL, REGION, PSEUDO = "python", "native", "kernel", "region", "pseudo"
ALL, LIBRARIES, NO_NATIVE = "all", "libraries", "none"  # which native functions paths have
IS_NATIVE, IS_KERNEL = 1, 2
_KINDS = {NATIVE: IS_NATIVE, IN_THE_KERNEL: IS_KERNEL}
_CODE_MASK = (1 << 32) - 1
_NAMED_AT_ONCE = 2000
_NAMED_EVERY_S, _AT_ONCE_TIMES = 3.0, 3  # how often symbols are looked up, after so many times
_FOLDED = 1  # a function of the table that no path shows
_UNKNOWN = Code(0, 0, "[unknown python]", "", b"")


class Function(Struct):
    """Hold a function as it is shown: of Python `file` and `line` say where it begins, of native
    code `file` is the library.  `is_folded`: paths leave it out; `own` says whether it is work of
    the profiler's (assemble/own_work.py); `is_interpreter`: it is CPython's own C code."""

    kind: str
    name: str
    file: str = ""
    line: int = 0
    is_folded: bool = False
    own: int = 0
    is_interpreter: bool = False

    def is_shown(self, native: str) -> bool:
        """Is it part of paths, with so much native code (ALL, LIBRARIES, NO_NATIVE)?"""
        if self.is_folded or self.kind not in (NATIVE, IN_THE_KERNEL):
            return not self.is_folded
        return native == ALL or (native == LIBRARIES and not self.is_interpreter)


class Functions:
    """Hold all; 0 is no function, and 1 is one that is left out of paths.

    `same` is which function each one is shown as; `n_changes` counts what made a function another
    one than it was.
    """

    def __init__(self) -> None:
        self.rows: list[Function] = []
        self.same = array("I")
        self.n_changes = 0
        self._ids: dict[Hashable, int] = {}
        self._folded = {native: bytearray() for native in (ALL, LIBRARIES, NO_NATIVE)}
        self._own, self._kinds = bytearray(), bytearray()
        self.number(None, Function(PSEUDO, ""))
        self.number(_FOLDED, Function(PSEUDO, "", is_folded=True))

    def number(self, key: Hashable, function: Function) -> int:
        """Return the function's number, which `key` identifies."""
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.rows)
            self.rows.append(function)
            self.same.append(number)
            for column in (*self._folded.values(), self._own, self._kinds):
                column.append(0)
            self.changed(number)
        return number

    def show_as(self, number: int, key: Hashable) -> None:
        """Show it as the one that has the `key`, if there is one by now; else it gets that key."""
        self.same[number] = self._ids.setdefault(key, number)

    def changed(self, number: int) -> None:
        """Note that what is known of a function has changed."""
        self.n_changes += 1
        row = self.rows[number]
        for native, folded in self._folded.items():
            folded[number] = _folded(row, native)
        self._own[number], self._kinds[number] = row.own, _KINDS.get(row.kind, 0)

    def folded(self, native: str) -> bytearray:
        """Return by number whether paths leave it out, with so much native code (as _columns.paths
        has it: 1); or only below itself (4), as the kernel, whose functions are one here."""
        return self._folded[native]

    @property
    def own(self) -> bytearray:
        """Return by number whose work it is (assemble/own_work.py)."""
        return self._own

    @property
    def kinds(self) -> bytearray:
        """Return by number whether it is native code (IS_NATIVE) or the kernel (IS_KERNEL)."""
        return self._kinds


def _folded(row: Function, native: str) -> int:
    if row.kind == IN_THE_KERNEL and row.is_shown(native):
        return 4
    return not row.is_shown(native)


class Words:
    """Know which function each word of one spool is."""

    def __init__(self, spool: Spool, functions: Functions) -> None:
        self._spool, self._functions = spool, functions
        self._of_word: dict[int, int] = {0: 0}
        self._nameless: dict[int, int] = {}  # functions -> a word of theirs
        self._called_by: dict[int, str] = {}  # functions -> the name by which Python called them
        self._symbolizer: Symbolizer | None = None
        self._opened: dict[tuple[str, str | None], Symbols] = {}
        self._n_times, self._named_at = 0, 0.0
        self.notes: list[str] = []

    def is_phantom(self, word: int) -> bool:
        """Is it a Python frame that has not begun (assemble/trees.py)?"""
        if not NATIVE_LIMIT <= word < PSEUDO_LIMIT or word & OFFSET_MASK == OFFSET_UNKNOWN:
            return False
        code = self._spool.codes.get(word >> OFFSET_BITS & _CODE_MASK)
        return code is not None and word & OFFSET_MASK < code.first_traceable

    def of_stacks(self, words: Iterable[int]) -> array[int]:
        """Return the functions of words of stacks."""
        known = self._of_word
        return array(
            "I", (known[word] if word in known else self._of_stack(word) for word in words)
        )

    def of_exact(self, words: Iterable[int]) -> array[int]:
        """Return those of the exact half's words; a line is none of its own."""
        return array("I", map(self._of_exact, words))

    def _of_exact(self, word: int) -> int:
        if word >= LINE_LIMIT:
            return _FOLDED
        if word >= C_CALL_LIMIT:
            return self._called(word - C_CALL_LIMIT)
        known = self._of_word.get(word)
        return self._of_stack(word) if known is None else known

    def _of_stack(self, word: int) -> int:
        if word < NATIVE_LIMIT:
            found = self._native(word, self._spool.functions.get(word, 0))
        elif word < PSEUDO_LIMIT:
            found = self._python(word)
        elif word >= KERNEL_LIMIT:
            found = self._functions.number(KERNEL, Function(IN_THE_KERNEL, KERNEL))
        else:
            found = self._constant(word)
        self._of_word[word] = found
        return found

    def _python(self, word: int) -> int:
        code = self._spool.codes.get(word >> OFFSET_BITS & _CODE_MASK)
        if code is None:
            return self._constant(PSEUDO_LIMIT | PSEUDO_UNKNOWN_PYTHON)
        row = Function(PYTHON, code.qualname, code.file, code.first_line)
        is_import = code.file in IMPORT_FILES and code.qualname != IMPORT_KEPT
        row.is_folded = is_import or code.qualname == DECORATED
        row.own = OUR_PYTHON if code.file.startswith(OWN_FOLDER) else PROGRAM
        return self._functions.number((code.qualname, code.file, code.first_line), row)

    def _constant(self, word: int) -> int:
        number = word & 0xFFFFFFFF
        if word < REGION_LIMIT:
            name, symbol = pseudo_frame(number & 0xFF)
            if symbol == IN_KERNEL:
                return self._functions.number(KERNEL, Function(IN_THE_KERNEL, KERNEL))
            row = Function(PSEUDO, name, is_folded=symbol == BRIDGED)
            row.own = OURS if symbol == OWN_WORK else 0
            return self._functions.number((PSEUDO, symbol), row)
        text = self._spool.regions.get(number, f"region {number}")
        name, _, of_class = text.partition("\0")
        shown = f"{name} [{of_class}]" if of_class else f"[{name}]"
        shown = f"backward of {name}" if word & REGION_CAUSE else shown
        return self._functions.number((REGION, shown), Function(REGION, shown))

    def _called(self, word: int) -> int:
        """Return a C function that Python called, which has a name."""
        number = self._native(word, word)
        module = self._spool.modules.get(word >> ADDRESS_BITS)
        names = self._spool.c_functions.get((module.base if module else 0) + (word & ADDRESS_MASK))
        if names and number in self._nameless:
            name = min(names, key=lambda name: (len(name), name))
            self._functions.rows[number].name = self._called_by[number] = name
        return number

    def _native(self, word: int, start: int) -> int:
        module = self._spool.modules.get(word >> ADDRESS_BITS)
        if module is None:
            return self._functions.number(JIT, Function(NATIVE, JIT))
        short = os.path.basename(module.path)
        at = (start or word) & ADDRESS_MASK  # without unwind information each address, until named
        row = Function(NATIVE, f"{short}!+{at:#x}" if start else f"{short}!?", module.path)
        row.own = OURS if is_own_library(module.path) else 0
        row.is_interpreter = is_interpreter(module.path)
        number = self._functions.number((module.path, module.build_id, at), row)
        if row is self._functions.rows[number]:
            self._nameless[number] = word - (word & ADDRESS_MASK) + at
        return number

    # --- names of native functions ----------------------------------------------------------------

    def name(self) -> int:
        """Name native functions that have no name yet, so many at most; returns how many are
        left."""
        now = time.monotonic()
        if self._n_times >= _AT_ONCE_TIMES and now - self._named_at < _NAMED_EVERY_S:
            return len(self._nameless)
        batch = dict(list(self._nameless.items())[:_NAMED_AT_ONCE])
        if not batch:
            return 0
        self._n_times, self._named_at = self._n_times + 1, now
        if self._symbolizer is None:
            load, demangle = self._loader()
            self._symbolizer = Symbolizer(self._spool, load, demangle)
        named = self._symbolizer.name(set(batch.values()))
        for number, word in batch.items():
            del self._nameless[number]
            self._take_name(number, named[word])
        self.notes = self._symbolizer.notes
        return len(self._nameless)

    def _loader(self) -> tuple[Loader | None, Demangle]:
        try:
            load, demangle = loader_of(self._spool)
        except PyhybridError:
            return None, str

        def load_once(path: str, build_id: str | None) -> Symbols:
            key = path, build_id
            if key not in self._opened:
                self._opened[key] = load(path, build_id)
            return self._opened[key]

        return load_once, demangle

    def _take_name(self, number: int, found: NativeFunction) -> None:
        functions, row = self._functions, self._functions.rows[number]
        path = row.file
        file = os.path.basename(path)
        module = self._spool.modules.get(found.module)
        if found.symbol is None and number in self._called_by:
            return
        if found.symbol is None:
            name = f"{file} [nameless]"
            row.is_folded = is_interpreter(file) or starts_threads(file)
            if not row.is_folded and module is not None:
                row.name = name
                functions.show_as(number, (path, module.build_id, name))
            functions.changed(number)
            return
        row.name = shorten_native(found.name)
        row.is_folded = is_plumbing(file, found.symbol) or is_wrapper(row.name)
        if row.own and is_passage(found.symbol):
            row.own = 0
        elif is_interpreter(file) and self._spool.exact_words and is_instrumentation(found.symbol):
            row.own = 0 if self._spool.meta.get("other_tools") else OURS
        if module is not None:
            functions.show_as(number, (path, module.build_id, row.name))
        functions.changed(number)
