"""IPython: which functions call a cell of a notebook.  Their files are in ipython.toml."""

import re
import tomllib
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import Any

from pyhybrid.package_text import text_beside


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(text_beside(__file__, "ipython.toml"))


@cache
def _kernel() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _table()["kernel"])))


def is_kernel(file: str) -> bool:
    """Is a Python file one of those by which a cell is run?"""
    return _kernel().match(file) is not None


def runs_cell(file: str, name: str) -> bool:
    """Is a Python function that of our magic which runs a cell?"""
    it = _table()["runs_cell"]
    return bool(name == it["name"]) and fnmatchcase(file, it["file"])
