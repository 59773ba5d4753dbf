"""The program's modules and ours, kept apart: neither hides the other's.

While we import, the standard library comes first, and the folder that the interpreter puts before
it (the current one, with `-m`) is left out: `begin`.  When the program begins, `sys.path` is what
it was, and what we have imported is no longer in `sys.modules`: it imports its own, as it does bare
(`hand_back`).  What we import while it runs finds ours again (`Ours`).

Modules that are part of the interpreter stay loaded: no file can hide them.  What `python -m`
itself imports (`runpy`, `types`) has been imported before anything of ours runs.
"""

import os
import sys

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from types import ModuleType

# Their imports: runpy's, and those of the script that pip writes for a command.
_LAUNCHERS = (
    *("runpy", "importlib", "types", "warnings"),
    *("re", "_sre", "enum", "functools", "_functools", "collections", "_collections", "keyword"),
    *("operator", "_operator", "reprlib", "itertools", "copyreg"),
)
_OURS = "pyhybrid"
# Two of it would both take the threads for theirs.
_STAY = frozenset((*sys.builtin_module_names, "threading"))

_bare: "frozenset[str]" = frozenset()  # what the program finds loaded without us
_path: "list[str] | None" = None  # the program's
_handed_back: "dict[str, ModuleType]" = {}


def begin() -> None:
    """Import nothing but the standard library's modules, and ours, under their names from now on.
    It is called before anything else is imported."""
    global _bare, _path
    if _path is not None:
        return
    _path = sys.path[:]
    library = os.path.dirname(os.__file__)
    at = _path.index(library) if library in _path else 0
    before = _path[:at] if sys.flags.safe_path else _path[1:at]
    sys.path[:] = [*(_path[at:] if at or sys.flags.safe_path else _path[1:]), *before]
    names = list(sys.modules)
    launchers = []
    while names and names[-1].partition(".")[0] in (*_LAUNCHERS, _OURS):
        launchers.append(names.pop())
    _bare = frozenset(names)
    for name in launchers:  # a file in the current folder was taken for it
        file = getattr(sys.modules[name], "__file__", None)
        if file and not _is_ours(name) and at and not file.startswith(os.path.join(library, "")):
            del sys.modules[name]


def begin_before_program() -> None:
    """Do as `begin` where the interpreter starts: of the program's there are only PYTHONPATH's
    folders, which come last."""
    global _bare, _path
    _path, _bare = sys.path[:], frozenset(sys.modules)
    library = os.path.dirname(os.__file__)
    at = _path.index(library) if library in _path else 0
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path[:] = [*_path[at:], ours, *_path[:at]]


def hand_back() -> None:
    """Leave `sys.path` and `sys.modules` as a bare program has them, but for `pyhybrid` itself."""
    if _path is None:
        return
    sys.path[:] = _path
    for name in list(sys.modules):
        if name not in _bare and name not in _STAY and not _is_ours(name):
            _handed_back[name] = sys.modules.pop(name)


def program_path() -> "list[str]":
    """Return `sys.path` as the program finds it, but for the first entry."""
    return sys.path[:] if _path is None else _path[:]


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == _OURS


class Ours:
    """Find what we need while the program runs: `with Ours(): import ...`.

    Only modules of ours are found so, and what has been handed back: nothing is sought on the
    program's path.  Another thread that imports at this moment may get ours, which does no harm
    where the program's is the standard library's, too.
    """

    def __enter__(self) -> None:
        self._theirs = {name: sys.modules.get(name) for name in _handed_back}
        sys.modules.update(_handed_back)

    def __exit__(self, *_: object) -> None:
        for name, module in self._theirs.items():
            if module is not None:
                sys.modules[name] = module
            else:
                sys.modules.pop(name, None)
