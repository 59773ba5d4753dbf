"""Which functions are traced: patterns on qualified name, module and file, or functions by name."""

import os
import re
from collections.abc import Sequence
from typing import Any

from pyhybrid.errors import UsageError

_PACKAGES = r"/(?:site|dist)-packages/"


def _shorthands() -> dict[str, str]:
    """Words that stand for a pattern."""
    library = re.escape(os.path.dirname(os.__file__) + os.sep)
    return {
        "site-packages": _PACKAGES,
        "stdlib": rf"^(?:<frozen |{library}(?!(?:site|dist)-packages))",
    }


def _search(pattern: str, known: dict[str, str]) -> Any:
    try:
        return re.compile(known.get(pattern, pattern)).search
    except re.error as error:
        raise UsageError(f"invalid pattern {pattern!r}: {error}") from None


Filter = tuple[tuple[Any, ...], tuple[Any, ...], frozenset[str]]


def selection(
    include: Sequence[str], exclude: Sequence[str], functions: Sequence[str]
) -> Filter | None:
    """What `_native.start` takes as its filter; None: everything.

    A function is selected if it is one of `functions` (a qualified name, or `module.qualname`;
    empty: all are), a pattern of `include` is found in its qualified name, module or file (empty:
    all), and none of `exclude` is.  Raises UsageError for a pattern that is none.
    """
    if not (include or exclude or functions):
        return None
    known = _shorthands() if {*include, *exclude} & {"stdlib", "site-packages"} else {}
    searches = [tuple(_search(each, known) for each in group) for group in (include, exclude)]
    return searches[0], searches[1], frozenset(functions)
