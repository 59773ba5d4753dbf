"""IPython: which functions call a cell of a notebook.  Their files are in ipython.toml."""

from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pyhybrid.base.files import table_beside
from pyhybrid.base.name_patterns import NamePatterns


@cache
def _table() -> dict[str, Any]:
    return table_beside(__file__, "ipython")


@cache
def _kernel() -> NamePatterns:
    return NamePatterns(_table()["kernel"])


def is_kernel(file: str) -> bool:
    """Is a Python file one of those by which a cell is run?"""
    return _kernel().match(file)


def runs_cell(file: str, name: str) -> bool:
    """Is a Python function that of our magic which runs a cell?"""
    it = _table()["runs_cell"]
    return bool(name == it["name"]) and fnmatchcase(file, it["file"])
