"""Patterns in the notation of the shell (fnmatch), some of which a name is to match.

Most of ours are plain names, or begin one: for those no regular expression is compiled, which would
take longer than all else at the end of a short run.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import cached_property

# Where Python files lie that are not the program's own.
LIBRARY_FOLDER = re.compile(r".*/(?:(?:site|dist)-packages|lib(?:64)?/python3\.\d+)/")

_SPECIAL = re.compile(r"[*?[]")


class NamePatterns:
    """Match as `any(fnmatchcase(name, each) for each in patterns)` does."""

    def __init__(self, patterns: Iterable[str]) -> None:
        names, beginnings, self._others = set(), [], []
        for each in patterns:
            first = _SPECIAL.search(each)
            if not first:
                names.add(each)
            elif each[first.start() :] == "*":
                beginnings.append(each[:-1])
            else:
                self._others.append(each)
        self._names, self._beginnings = frozenset(names), tuple(beginnings)

    def match(self, name: str) -> bool:
        """Does the whole name match one?"""
        if name in self._names or name.startswith(self._beginnings):
            return True
        return bool(self._others) and self._expression.match(name) is not None

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self._others)))


def is_librarys(file: str) -> bool:
    """Is it in site-packages or the standard library, or code of no Python file?"""
    return not file.endswith((".py", ".pyw")) or LIBRARY_FOLDER.match(file) is not None
