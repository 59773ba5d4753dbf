"""Plumbing: native frames that carry no information to a reader of a call path.

They lie between an eval loop and the C function that it calls, between an operator and its kernel,
or start a thread; one call site has a longer and a shorter chain of them before and after
specialization.  Views and folded stacks leave them out, so that such paths are one; the profile
file and perf.data keep them.  The rules are data: plumbing.toml.
"""

import os
import re
from functools import cache

from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.base.pseudo_frames import PLT

PYTHON = "python"  # CPython itself, among the table's [modules]
KERNEL_MODULE = "[kernel]"

# Distributions strip libc of the names of thread and program starts: its nameless functions are
# plumbing where they are the outermost of a stack.
NAMELESS_STARTS = NamePatterns(("libc.so*", "libc-*.so*", "libpthread[-.]*"))

# Python functions between an `import` and the code of the module; `_find_and_load` stays for all.
IMPORT_FILES = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
IMPORT_KEPT = "_find_and_load"

# What these headers of CPython define is inlined everywhere: Py_DECREF, _PyObject_VectorcallTstate.
_HEADERS = re.compile(r"/(?:Include|include/python3\.\d+t?)/")


class _Rules:
    """Hold the table: patterns of each module's names, and those of all readable names."""

    def __init__(self) -> None:
        data = table_beside(__file__, "plumbing")
        table, modules = data["rule"], data["modules"]

        def by_module(key: str) -> list[tuple[NamePatterns, NamePatterns]]:
            return [
                (
                    NamePatterns(modules.get(r["module"], [r["module"]])),
                    NamePatterns(r[key]),
                )
                for r in table
                if key in r
            ]

        self.interpreter = NamePatterns(modules[PYTHON])
        self.symbols = by_module("symbols")
        self.python_names = by_module("python_names")
        self.names = NamePatterns([name for rule in table for name in rule.get("names", ())])
        self.callables = [
            (NamePatterns(rule["names"]), rule.get("only", ""), int(rule["argument"]))
            for rule in data["callable"]
        ]
        self.own = {key: NamePatterns(patterns) for key, patterns in data["own"].items()}


@cache
def _rules() -> _Rules:
    return _Rules()


def is_interpreter(path: str) -> bool:
    """Is the module CPython itself?"""
    return _rules().interpreter.match(os.path.basename(path))


def starts_threads(file: str) -> bool:
    """Is it, by its name, a C library: its nameless functions may start threads and programs?"""
    return NAMELESS_STARTS.match(file)


def is_trampoline(symbol: str | None) -> bool:
    """Is code in no module, by its name, CPython's own trampoline into the eval loop (-X perf)?"""
    return symbol is not None and symbol.startswith("py::")


def is_own_library(path: str) -> bool:
    """Is it a library of the profiler's?"""
    return _rules().own["libraries"].match(path)


def is_own_callback(symbol: str | None) -> bool:
    """Does the interpreter call this function of our library for an event?"""
    return _rules().own["callbacks"].match(plain_symbol(symbol))


def is_passage(symbol: str | None) -> bool:
    """Does this function of our library stand between the program and what is its own?"""
    return _rules().own["passages"].match(plain_symbol(symbol))


def is_instrumentation(symbol: str | None) -> bool:
    """Does this function of the interpreter run only where there are events?"""
    return _rules().own["instrumentation"].match(plain_symbol(symbol))


def is_inlined_plumbing(file: str | None) -> bool:
    """Is an inlined function, by the file that declares it?"""
    return file is not None and _HEADERS.search(file) is not None


def plain_symbol(symbol: str | None) -> str:
    """Return it without the compiler's suffixes (`.cold`), and of a stub what it jumps to."""
    return (symbol or "").removesuffix(PLT).split(".")[0]


def is_plumbing(file: str, symbol: str | None, python_name: str | None = None) -> bool:
    """Is it plumbing, by the name of the module's file (without folder) and by the symbol?

    `python_name` counts where there is no symbol.
    """
    of_symbols, of_python_names = _rules_of(file)
    if symbol is None:
        return any(names.match(python_name or "") for names in of_python_names)
    name = plain_symbol(symbol)
    return any(names.match(name) for names in of_symbols)


@cache
def _rules_of(file: str) -> tuple[list[NamePatterns], ...]:
    """Return the patterns of symbols and of Python names in a module."""
    every = _rules().symbols, _rules().python_names
    return tuple([names for module, names in each if module.match(file)] for each in every)


def argument_called(name: str, short_name: str) -> int | None:
    """Return which of its last template arguments a C++ function exists to call, by its readable
    name and by that as views show it; None: it is no such function."""
    for names, only, argument in _rules().callables:
        if only in name and names.match(short_name):
            return argument
    return None


def is_wrapper(short_name: str) -> bool:
    """Is it, by its readable name as views show it, a wrapper or dispatcher of C++ or Rust?"""
    return _rules().names.match(short_name.removesuffix(PLT))
