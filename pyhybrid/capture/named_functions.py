"""Functions by name, as -t and --keep take them.

A qualified name `Model.forward`, `module.qualname`, `file.py:qualname` with the end of the file's
path, or a pattern of the shell for one of these, `*.forward`, `orders.py:*`.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Any

Named = tuple[frozenset[str], tuple[Any, ...]]  # what _native takes; see src/instrument/filter.h


def named(names: Iterable[str]) -> Named:
    """The names that are no patterns, and for each pattern what searches a text.

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
