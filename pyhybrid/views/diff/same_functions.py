"""Which functions of several profiles are the same, where files lie in other folders.

The same name and place is the same function.  Of what is left, Python functions of one name in
files of one name are the same if the ends of their paths agree best, and no other's as well.
"""

from collections import defaultdict
from collections.abc import Iterable

from pyhybrid.views.diff.function_figures import Function

_Key = tuple[str, str, str]  # kind, name, the file's own name
GENERIC = ("__init__.py", "__main__.py")  # mean nothing without their folder


class SameFunctions:
    """Hold functions of the profiles so far, each under the name that it had first."""

    def __init__(self) -> None:
        self._known: dict[Function, None] = {}  # a set in order of time
        self._by_file: defaultdict[_Key, list[Function]] = defaultdict(list)

    def names(self, functions: Iterable[Function]) -> dict[Function, Function]:
        """Return what each function of a further profile is called; no two are one."""
        functions = list(functions)
        names = {each: each for each in functions if each in self._known}
        left: defaultdict[_Key, list[Function]] = defaultdict(list)
        for each in functions:
            if each not in names:
                left[_key(each)].append(each)
        taken = set(names)
        for key, new in left.items():
            known = [each for each in self._by_file[key] if each not in taken]
            for each in new:
                names[each] = _alike(each, new, known) or each
        for name in names.values():
            if name not in self._known:
                self._known[name] = None
                self._by_file[_key(name)].append(name)
        return names


def _key(function: Function) -> _Key:
    return function.kind, function.name, function.place.rpartition("/")[2]


def _alike(function: Function, new: list[Function], known: list[Function]) -> Function | None:
    """Return the one of `known` most like it, if it is the one of `new` most like that."""
    if function.kind != "python":
        return None
    found = _best(function, known)
    return found if found and _best(found, new) is function else None


def _best(function: Function, others: list[Function]) -> Function | None:
    """Return the one whose path agrees with the function's most; None: several, or too little."""
    shared = [(_shared(function.place, each.place), each) for each in others]
    most = max((n for n, _ in shared), default=0)
    best = [each for n, each in shared if n == most]
    least = 2 if function.place.rpartition("/")[2] in GENERIC else 1
    return best[0] if len(best) == 1 and most >= least else None


def _shared(a: str, b: str) -> int:
    """Return how many parts the ends of two paths have in common."""
    n = 0
    for one, other in zip(reversed(a.split("/")), reversed(b.split("/")), strict=False):
        if one != other:
            break
        n += 1
    return n
