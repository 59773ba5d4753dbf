"""Calls of functions that imports of libraries ran, added up: one row below each module.

A program of a few seconds spends most of them in imports, on hundreds of thousands of paths that
nobody reads: each would be a node, and a row of the file.  So what events counted there is summed.
Kept as they are: samples, all of them; each module that was imported, and the path to it; the
program's own functions, wherever they are called from, with all that they call; regions; and
functions whose lines or single calls are kept.  What else was called from one place of such a path
is a row [functions of imports] there, whose figures are the sums: no call and no time is missing.

It is done where the spool says so (`--imports` keeps all), and the run ended in order.
"""

from array import array
from collections.abc import Hashable, Iterable, Iterator
from itertools import repeat

from pyhybrid._columns import (
    CALLED_FOLDED,
    CALLED_STAYS,
    NATIVE_LIMIT,
    OFFSET_BITS,
    PSEUDO_IMPORT_FUNCTIONS,
    PSEUDO_LIMIT,
    PSEUDO_TREE_FULL,
    PSEUDO_UNKNOWN_PYTHON,
    REGION_LIMIT,
    descend,
    distinct,
    fold_counts,
    rows_from,
    take,
)
from pyhybrid.assemble.trees import Forest
from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.spool import EXACT_COUNT
from pyhybrid.spool.content import Code, Spool
from pyhybrid.symbols.plumbing import IMPORT_FILES, IMPORT_KEPT
from pyhybrid.tables import COLLECTION

# What a word is: a function of a library's, the outermost one of an import statement, a library's
# module; the program's own, below which no import is any more; what stays wherever it is.
_OTHER, _IMPORT, _MODULE, _OWN, _KEPT = range(5)
# Where a row is: in the program, an import statement, below one; it stays, but is below one.
_PROGRAM, _STATEMENT, _BELOW, _STAYS = range(4)
_STEPS = bytes(
    {_IMPORT: _STATEMENT}.get(kind, _PROGRAM)
    if state == _PROGRAM
    else {_OWN: _PROGRAM, _MODULE: _STAYS, _KEPT: _STAYS}.get(kind, _BELOW)
    for state in range(4)
    for kind in range(256)
)
_IS_KEPT = bytes(state != _BELOW for state in range(256))
_INSIDE = bytes([0, 1, *bytes(254)]) + b"\1" * 256  # steps: once below one, for good
_IS_OUTSIDE = bytes([1, *bytes(255)])

WORD = PSEUDO_LIMIT | PSEUDO_IMPORT_FUNCTIONS
# What is no function, and has calls that are reported apart.
_DISTINCT = {PSEUDO_LIMIT | PSEUDO_UNKNOWN_PYTHON, PSEUDO_LIMIT | PSEUDO_TREE_FULL}

_CODE_MASK = (1 << 32) - 1


def fold_import_calls(spool: Spool) -> None:
    """Fold those of the spool, if it is to be."""
    meta = spool.meta
    if meta.get("imports", True) or meta.get("c_calls") or spool.events or not spool.end:
        return
    last_ticks = spool.clocks[-1][0] if spool.clocks else 0
    folded, kept = set[int](), set[int]()
    for index in list(spool.exact_words):
        words = _fold(spool, index, last_ticks)
        folded |= words[0]
        kept |= words[1]
    names = set(_names(spool, folded)) - set(_names(spool, kept))
    if names:
        meta["import_functions"] = len(names)


def _fold(spool: Spool, index: int, last_ticks: int) -> tuple[set[int], set[int]]:
    """Fold those of a thread; returns the words of calls that were folded, and of all others."""
    parents, words = spool.exact_parents[index], spool.exact_words[index]
    n = len(words)
    number, first = distinct(words)
    known = [words[row] for row in first]
    kinds = bytes(_kinds(spool, known))
    states = bytes(descend(parents, take(kinds, number), _STEPS))
    stays = bytearray(states.translate(_IS_KEPT))
    for row in _referred(spool, index):
        stays[row] = 1
    try:
        rows, place, above, *counts, called = fold_counts(
            parents, number, stays, spool.exact_counts[index], last_ticks
        )
    except OverflowError:  # damaged: which rows are is found where figures are made
        return set(), set(known)
    if len(rows) < n:
        spool.exact_rows[index] = array("I", place.tobytes())
        spool.exact_parents[index] = array("I", above.tobytes())
        spool.exact_words[index] = array("Q", take(words, rows).tobytes())
        spool.exact_words[index].extend(repeat(WORD, len(above) - len(rows)))
        whole = spool.exact_counts[index] = bytearray(EXACT_COUNT.size * len(above))
        fields = memoryview(whole).cast("q")
        for at, column in enumerate(counts):
            fields[at :: len(counts)] = column
    return (
        {word for word, how in zip(known, called, strict=True) if how & CALLED_FOLDED},
        {word for word, how in zip(known, called, strict=True) if how & CALLED_STAYS},
    )


def _kinds(spool: Spool, words: Iterable[int]) -> Iterator[int]:
    """Yield what each word is."""
    cells = set((spool.meta.get("cells") or {}).keys())
    facts = {(each.qualname, each.file, each.first_line) for each in spool.code_facts}
    librarys: dict[str, bool] = {}
    for word in words:
        if not NATIVE_LIMIT <= word < PSEUDO_LIMIT:
            yield _KEPT if word >= REGION_LIMIT or word in _DISTINCT else _OTHER
            continue
        code = _code(spool, word)
        if code is None:
            yield _KEPT
            continue
        file = code.file
        if file not in librarys:
            librarys[file] = file not in cells and is_librarys(file)
        if not librarys[file]:
            yield _OWN
        elif _begins_import(code):
            yield _IMPORT
        elif code.qualname == "<module>" and not file.startswith("<string"):  # what exec() runs
            yield _MODULE
        else:
            yield _KEPT if (code.qualname, file, code.first_line) in facts else _OTHER


def words_outside_imports(spool: Spool, forest: Forest) -> set[int]:
    """Return the words of stacks that no import statement ran."""
    words, rows = forest.words, forest.stacks
    codes = (_code(spool, word) if NATIVE_LIMIT <= word < PSEUDO_LIMIT else None for word in words)
    kinds = bytes(_begins_import(code) if code else 0 for code in codes)
    inside = descend(spool.parents, take(kinds, forest.word[rows]), _INSIDE)
    outside = take(forest.word[rows], rows_from(bytes(inside).translate(_IS_OUTSIDE), 1))
    return {words[each] for each in set(outside)}


def _begins_import(code: Code) -> bool:
    return code.qualname == IMPORT_KEPT and code.file in IMPORT_FILES


def _code(spool: Spool, word: int) -> Code | None:
    return spool.codes.get(word >> OFFSET_BITS & _CODE_MASK)


def _names(spool: Spool, words: Iterable[int]) -> Iterator[Hashable]:
    """Yield what makes each of the Python functions one (frames.py)."""
    for word in words:
        code = _code(spool, word) if NATIVE_LIMIT <= word < PSEUDO_LIMIT else None
        if code:
            yield code.qualname, code.file, code.first_line


def _referred(spool: Spool, index: int) -> set[int]:
    """Return the rows of a thread to which more belongs than counts."""
    rows = {each.node for each in spool.backward_sums if each.thread == index}
    rows |= {each.node for each in spool.backward_turns if each.thread == index}
    rows |= {call[4] for call in spool.watched.get(index, ()) if call[5] < COLLECTION}
    rows |= {node for thread, node in spool.call_times if thread == index}
    return rows
