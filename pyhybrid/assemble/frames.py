"""From frame words to frames: which function each distinct word of a spool belongs to.

Identity: python = (qualname, file, first line), so that equal code objects are one
function; native = (module path and build-id, function start), so that a library loaded twice is
one, and without a module the start alone, an absolute address; kernel = its function's start;
pseudo = its kind.  Frame ids count from 1.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Hashable
from itertools import islice
from typing import Any

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
    REGION_OBJECT,
    line_runs,
)
from pyhybrid.assemble.trees import Forest
from pyhybrid.base.pseudo_frames import IN_KERNEL, KERNEL, PseudoFrame, pseudo_frame
from pyhybrid.spool.content import Code, Spool
from pyhybrid.symbols.plumbing import is_interpreter, starts_threads
from pyhybrid.symbols.resolve import (
    KERNEL_ADDRESS_MASK,
    NativeFunction,
    Symbolizer,
    kernel_address,
)
from pyhybrid.tables import BACKWARD, OBJECT, Frame
from pyhybrid.tables.database import clean

# The location table of a code object (co_linetable): from an instruction to its line.

_NONE = -1


class LineTable:
    """Decode one code object's table."""

    def __init__(self, table: bytes, first_line: int) -> None:
        """Decode `table` (co_linetable); `first_line`: co_firstlineno; empty: no lines."""
        self._starts, self._lines, self._end = line_runs(table, first_line)

    def line(self, offset: int) -> int | None:
        """Return the line of the instruction at `offset` (code units); None where there is none."""
        if not 0 <= offset < self._end:
            return None
        line = self._lines[bisect_right(self._starts, offset) - 1]
        return None if line == _NONE else line


_C_FUNCTION = re.compile(r"<built-in method (\S+)>")
_C_METHOD = re.compile(r"<method '(\S+)' of '(\S+)' objects>")
_WEAK_SOURCES = frozenset(("fde", "exported data"))  # Python's own name of a function is better
_CODE_MASK = (1 << 32) - 1  # of a Python word: its code record


MAX_SHARED = 8  # names of a function; one that has more is a dispatcher (method_names.c)


def _python_name(names: set[str]) -> str | None:
    """Return one text for all names by which Python reaches a C function; None: too many."""
    if not 1 <= len(names) <= MAX_SHARED:
        return None
    first, *others = sorted(names, key=lambda name: (len(name), name))
    if len(others) > 1:
        return f"{first} or {len(others)} others"
    return " or ".join([first, *others])


def _short_c_name(name: str) -> str:
    """Return `list.sort` of `<method 'sort' of 'list' objects>`."""
    match = _C_FUNCTION.fullmatch(name) or _C_METHOD.fullmatch(name)
    return ".".join(reversed(match.groups())) if match else name


def _named_by_python(row: Frame, name: str) -> Frame:
    """Return the row with this name, if what it has is weaker: an object's name is no symbol."""
    if row.source not in _WEAK_SOURCES:
        return row
    return row._replace(name=name, symbol=None, source="method table")


def native_words(forest: Forest) -> set[int]:
    """Return the words that Symbolizer.name() is asked for: of stacks, and of what was counted."""
    counted = _counted_words(forest)
    words = (forest.stack_words - {0}) | counted | _called_words(counted)
    return {word for word in words if word < NATIVE_LIMIT}


def _counted_words(forest: Forest) -> set[int]:
    return {word for word in forest.exact_words if 0 < word < LINE_LIMIT}


def _called_words(counted: set[int]) -> set[int]:
    """Return where C functions among those that were counted begin."""
    return {word - C_CALL_LIMIT for word in counted if word >= C_CALL_LIMIT}


class Frames:
    """Hold the frames of one spool, and what each distinct word means.

    `rows` are the frames; `frame` maps a word to its frame's id; `address` (absolute, of native
    words; those of the kernel are negative, as int64), `offset` and `line` (of Python words) are
    where in the frame it is.  `phantoms` are Python words that stand before the code's first
    traceable instruction; `exact` maps the exact half's words to frames.  `c_names`: the names by
    which Python calls C functions, by frame.
    """

    def __init__(self, spool: Spool, forest: Forest, symbolizer: Symbolizer) -> None:
        self.rows: list[Frame] = []
        self.frame: dict[int, int] = {}
        self.address: dict[int, int] = {}
        self.offset: dict[int, int] = {}
        self.line: dict[int, int | None] = {}
        self.phantoms: set[int] = set()
        self._spool = spool
        self._ids: dict[Hashable, int] = {}
        self._generated = symbolizer.generated
        self._cells: dict[str, str] = spool.meta.get("cells") or {}
        self._module_keys = {
            module.id: (module.path, module.build_id) for module in spool.modules.values()
        }
        words = forest.stack_words - {0}  # the root; as a word it would be address 0 in no module
        in_python = sorted(word for word in words if NATIVE_LIMIT <= word < PSEUDO_LIMIT)
        self._read_lines(in_python)  # first: names may be sought beside it
        self._native(symbolizer, native_words(forest))
        self._name_by_python()
        for word in in_python:
            code = spool.codes.get(word >> OFFSET_BITS & _CODE_MASK)
            self.frame[word] = self._code(code) if code else self._pseudo(PSEUDO_UNKNOWN_PYTHON)
        for word in sorted(word for word in words if PSEUDO_LIMIT <= word < KERNEL_LIMIT):
            self.frame[word] = self._constant(word)
        self._kernel(symbolizer, sorted(word for word in words if word >= KERNEL_LIMIT))
        counted = _counted_words(forest)
        self.exact = {word: self._exact(word) for word in sorted(counted)}
        self.c_names: dict[int, set[str]] = {}
        for word in _called_words(counted):
            names = spool.c_functions.get(self.address[word], set())
            self.c_names.setdefault(self.frame[word], set()).update(names)
        self._name_c_functions()

    def table(self) -> dict[int, Frame]:
        """Return the table `frame`, by id, as the file has it."""
        table = {}
        for row in self.rows:
            name, file = clean(row.name), clean(row.file)
            is_clean = name is row.name and file is row.file
            table[row.id] = row if is_clean else row._replace(name=name, file=file)
        return table

    def add_pseudo(self, word: int) -> None:
        """Add a pseudo-frame's word that the spool does not have."""
        self.frame[word] = self._constant(word)

    def _name_by_python(self) -> None:
        """Give the names that the interpreter's method tables had at the program's end, beside
        those of symbol tables or in the place of weaker ones."""
        of_function: dict[Hashable, set[str]] = {}
        for word, names in self._spool.function_names.items():
            function = self._key(word >> ADDRESS_BITS, word & ADDRESS_MASK)
            of_function.setdefault(function, set()).update(names)
        for i, row in enumerate(self.rows):
            if row.module is None:
                continue
            name = _python_name(of_function.get(self._key(row.module, row.address), set()))
            if name is None:
                continue
            named = _named_by_python(row, name)
            self.rows[i] = named._replace(python_name=name)

    def _name_c_functions(self) -> None:
        """Name what the program's end did not (it was killed): a C function of a stripped
        interpreter has the name that Python called it by, or both if two share their code.
        Elsewhere it may be a binding generator's dispatcher."""
        modules = self._spool.modules
        for frame, names in self.c_names.items():
            row = self.rows[frame - 1]
            if row.module is None or not 1 <= len(names) <= 2:
                continue
            if is_interpreter(modules[row.module].path):
                name = " or ".join(sorted(map(_short_c_name, names)))
                self.rows[frame - 1] = _named_by_python(row, name)

    def _exact(self, word: int) -> int:
        if word >= C_CALL_LIMIT:
            word -= C_CALL_LIMIT
        if word < NATIVE_LIMIT:
            return self.frame[word]
        if word >= PSEUDO_LIMIT:
            return self._constant(word)
        code = self._spool.codes.get(word >> OFFSET_BITS & _CODE_MASK)
        return self._code(code) if code else self._pseudo(PSEUDO_UNKNOWN_PYTHON)

    def _intern(self, key: Hashable, *columns: Any) -> int:
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.rows) + 1
            self.rows.append(Frame(number, *columns))
        return number

    def _thread_name(self, number: int) -> str:
        thread = self._spool.threads.get(number)
        return (thread and (thread.name or thread.comm)) or "?"

    def _pseudo(self, number: int, of: str = "") -> int:
        name, symbol = pseudo_frame(number)
        name += of
        return self._intern(
            PseudoFrame(name, symbol),
            *("pseudo", name, None, None, None, None, None, symbol, "pseudo"),
        )

    def _constant(self, word: int) -> int:
        """Return a pseudo-frame, or a region, which is one by its name."""
        number = word & 0xFFFFFFFF
        if word < REGION_LIMIT:
            number, thread = number & 0xFF, number >> 8
            if thread:
                return self._pseudo(number, f" thread {self._thread_name(thread)}")
            named = pseudo_frame(number).symbol != IN_KERNEL
            return self._pseudo(number) if named else self._nameless_kernel()
        region = self._spool.regions.get(number, f"region {number}")
        name, _, of_class = region.partition("\0")
        if word & REGION_CAUSE:
            columns = (None, None, None, None, None, name, BACKWARD)
            return self._intern((BACKWARD, name), "region", f"backward of {name}", *columns)
        if not word & REGION_OBJECT:
            return self._intern(
                ("region", region),
                *("region", region, None, None, None, None, None, None, "region"),
            )
        return self._intern(
            (OBJECT, region),
            *("region", name, None, None, None, None, None, of_class or None, OBJECT),
        )

    def _native(self, symbolizer: Symbolizer, words: set[int]) -> None:
        bases = {module.id: module.base for module in self._spool.modules.values()}
        bases[0] = 0
        ids: dict[NativeFunction, int] = {}
        for word, function in symbolizer.name(words).items():
            frame = ids.get(function)
            if frame is None:
                frame = ids[function] = self._function(function)
            self.frame[word] = frame
            self.address[word] = bases.get(word >> ADDRESS_BITS, 0) + (word & ADDRESS_MASK)

    def _kernel(self, symbolizer: Symbolizer, words: list[int]) -> None:
        for word in words:
            address = kernel_address(word)
            self.address[word] = address
            found = symbolizer.name_kernel(address & KERNEL_ADDRESS_MASK)
            if found is None:
                self.frame[word] = self._nameless_kernel()
                continue
            name, start, size, module = found
            self.frame[word] = self._intern(
                ("kernel", start),
                *("kernel", name, module, None, None),
                *(start - (1 << 64), size, name, "kallsyms"),
            )

    def _nameless_kernel(self) -> int:
        """Return the kernel, where it hides names or nobody knows where in it a sample came."""
        return self._intern(KERNEL, *("kernel", KERNEL, None, None, None, None, None, None, "none"))

    def _key(self, module: int, start: int | None) -> Hashable:
        """Return what makes a native function one, in all loads of its module."""
        return (self._module_keys.get(module), start)

    def _function(self, function: NativeFunction) -> int:
        module, start, size, name, symbol, source = function
        return self._intern(
            self._key(module, start),
            *("native", name, None, None, module or None, start, size, symbol, source),
        )

    def _read_lines(self, words: list[int]) -> None:
        """Read where in their code Python words are."""
        tables: dict[int, LineTable] = {}
        for word in words:
            index, offset = word >> OFFSET_BITS & _CODE_MASK, word & OFFSET_MASK
            code = self._spool.codes.get(index)
            if code is None or offset == OFFSET_UNKNOWN:
                continue
            table = tables.get(index)
            if table is None:
                table = tables[index] = LineTable(code.line_table, code.first_line)
            self.offset[word] = offset
            self.line[word] = table.line(offset)
            if offset < code.first_traceable:
                self.phantoms.add(word)

    def _code(self, code: Code) -> int:
        file = self._cells.get(code.file, code.file)
        name = self._generated.python_name(code.file, code.qualname)
        return self._intern(
            (code.qualname, file, code.first_line),
            *("python", name, file, code.first_line, None, None, None, None, "code"),
        )


# Where a stripped libc starts programs and threads: its static functions, by the places they
# have.
#
# The outermost frame of a thread is `clone3`; it calls `start_thread`, which calls the thread's
# function.  `__libc_start_main`, which has a name, calls `__libc_start_call_main`, and that `main`.
# (glibc 2.34 and newer: sysdeps/nptl/libc_start_call_main.h, nptl/pthread_create.c.)

THREAD, THREAD_MAIN, PROGRAM_MAIN = "clone3", "start_thread", "__libc_start_call_main"
SOURCE = "role"


def name_starts(spool: Spool, frames: Frames) -> None:
    """Name these functions where nothing else did."""
    roles: dict[int, set[str]] = {}
    nameless = _nameless(spool, frames)
    rows = zip(spool.parents, spool.words, strict=True) if nameless else ()
    for parent, word in islice(rows, 1, None):
        frame = frames.frame.get(word, 0)
        if word < NATIVE_LIMIT and frame in nameless:
            caller = frames.frame.get(spool.words[parent], 0) if parent else 0
            roles.setdefault(frame, set()).add(_role(frames, roles, caller))
    for frame, found in roles.items():
        (role, *others) = found
        if role and not others:
            row = frames.rows[frame - 1]
            frames.rows[frame - 1] = row._replace(name=role, symbol=role, source=SOURCE)


def _nameless(spool: Spool, frames: Frames) -> set[int]:
    return {
        row.id
        for row in frames.rows
        if row.source == "fde"
        and row.module
        and starts_threads(os.path.basename(spool.modules[row.module].path))
    }


def _role(frames: Frames, roles: dict[int, set[str]], caller: int) -> str:
    """Return the role of what `caller` called; "": it has none."""
    if not caller:
        return THREAD
    symbol = frames.rows[caller - 1].symbol or ""
    if symbol.startswith("__libc_start_main"):
        return PROGRAM_MAIN
    return THREAD_MAIN if roles.get(caller) == {THREAD} else ""
