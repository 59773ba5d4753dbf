"""Which functions are traced: patterns on qualified name, module and file, or functions by name."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any

from pyhybrid.errors import UsageError
from pyhybrid.options.table import TIMER_KEYS

# Functions by name, as -t and --keep take them.
#
# A qualified name `Model.forward`, `module.qualname`, `file.py:qualname` with the end of the file's
# path, or a pattern of the shell for one of these, `*.forward`, `orders.py:*`.

Named = tuple[frozenset[str], tuple[Any, ...]]  # what _native takes; see src/instrument/filter.h


def named(names: Iterable[str]) -> Named:
    """Return the names that are no patterns, and for each pattern what searches a text.

    Such a text is a qualified name, `module.qualname` or `file:qualname`.
    """
    plain, patterns = set(), []
    for name in names:
        if not is_pattern(name):
            plain.add(name)
        elif ":" in name:
            file, _, function = name.rpartition(":")
            patterns.append(rf"^(?:.*/)?{translate(f'{file}:{function}')}")
        else:
            patterns.append(rf"^(?!.*:){translate(name)}")
    return frozenset(plain), tuple(re.compile(each).search for each in patterns)


def is_pattern(name: str) -> bool:
    """Is it more than a name that is to be equal?"""
    return any(each in name for each in "*?[:")


def is_one_of(names: Named, qualname: str, module: str, file: str) -> bool:
    """Is the function one of these?"""
    texts = qualname, f"{module}.{qualname}"
    if not names[0].isdisjoint(texts):
        return True
    return any(search(each) for search in names[1] for each in (*texts, f"{file}:{qualname}"))


_PACKAGES = r"/(?:site|dist)-packages/"


def _shorthands() -> dict[str, str]:
    """Return words that stand for a pattern."""
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


Searches = tuple[Any, ...]
# As PerfStubs has them: of names, of files; None: all are included.
Timers = tuple[Searches | None, Searches, Searches | None, Searches]
Filter = tuple[Searches, Searches, Named, Timers | None]


def selection(
    include: Sequence[str],
    exclude: Sequence[str],
    functions: Sequence[str],
    timers: Timers | None = None,
) -> Filter | None:
    """Return what `_native.start` takes as its filter; None: everything.

    A function is selected if it is one of `functions` (`named`; empty: all are), a
    pattern of `include` is found in its qualified name, module or file (empty: all), and none of
    `exclude` is; and `timers` select it.  Raises UsageError for a pattern that is none.
    """
    if not (include or exclude or functions or timers):
        return None
    known = _shorthands() if {*include, *exclude} & {"stdlib", "site-packages"} else {}
    searches = [tuple(_search(each, known) for each in group) for group in (include, exclude)]
    return searches[0], searches[1], named(functions), timers


def timers_of(keys: Mapping[str, Any]) -> Timers | None:
    """Return what the keys of PerfStubs' filters mean, TIMER_KEYS; None: nothing.

    It does as PerfStubs: patterns are searched for, without the quotes in them.  Raises UsageError
    for a pattern that is none, TypeError or AttributeError for a value that is no list of texts.
    """
    groups = [keys.get(key) for key in TIMER_KEYS]
    searches = [
        group if group is None else tuple(_search(each.replace('"', ""), {}) for each in group)
        for group in groups
    ]
    if not any(group is not None for group in groups):
        return None
    return searches[0], searches[1] or (), searches[2], searches[3] or ()


def of_perfstubs(path: str) -> dict[str, Any]:
    """Return the keys of PerfStubs' filter, a JSON file (or TOML or YAML, by its name).

    Others are ignored, and so is a file that is not there.  Raises UsageError.
    """
    from pyhybrid.options.config_file import parse

    try:
        with open(path, "rb") as file:
            keys: dict[str, Any] = parse(path, file.read())
        timers_of(keys)
    except OSError:
        return {}
    except (ValueError, AttributeError, TypeError):
        raise UsageError(f"{path} is no filter of PerfStubs: an object of lists of texts") from None
    return keys
