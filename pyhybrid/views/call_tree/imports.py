"""What import statements run: where it is in a tree, as one node for each statement, by module.

A program of a few seconds spends most of them there, in functions that its reader did not write:
views for people show it as one line.
"""

from collections.abc import Buffer
from functools import cache

from pyhybrid._columns import add_up, descend, nearest, rows_from, take
from pyhybrid.symbols.plumbing import IMPORT_FILES, IMPORT_KEPT
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.views.labels import labels_of, module_of

# A node's frame, and what the node is by that and by what is above it: the outermost module of an
# import, below that one, importlib's own, the outermost import.
_IMPORT, _MODULE = 1, 2
_TOP, _BELOW, _IMPORTLIB, _OUTER = 1, 2, 3, 4
_STEPS = bytes(
    {
        0: {_IMPORT: _OUTER},
        _TOP: {},
        _BELOW: {},
        _IMPORTLIB: {_MODULE: _TOP},
        _OUTER: {_MODULE: _TOP},
    }[above].get(kind, (0, _BELOW, _BELOW, _IMPORTLIB, _IMPORTLIB)[above])
    for above in range(5)
    for kind in range(256)
)
NAMED_WIDTH = 16  # columns for the modules that are named, where imports are one line


@cache
def _is(*states: int) -> bytes:
    return bytes(state in states for state in range(256))


@cache
def _is_not(*states: int) -> bytes:
    return bytes(state not in states for state in range(256))


def import_frames(profile: Profile) -> set[int]:
    """Return the frames by which an import statement begins."""
    frames = profile.frames.values()
    return {f.id for f in frames if f.name == IMPORT_KEPT and f.file in IMPORT_FILES}


def summed_functions(profile: Profile) -> int:
    """Return how many functions have no figures of their own, since only imports of libraries
    called them (assemble/import_calls.py): at least so many in a file of several processes."""
    return int(profile.meta.get("import_functions") or 0)


def note_of_sums(profile: Profile) -> list[str]:
    """Return the note, for views of each function, that imports have sums; none where all of them
    are there."""
    n = summed_functions(profile)
    what = f"calls of {n:,} functions by imports of libraries, and of others those that led to no"
    return [f"{what} module, are sums: a run with --imports has each"] if n else []


def import_line(modules: list[str]) -> str:
    """Return how it is written where it is one line: `[import torch, numpy]`."""
    named = modules[:1]
    for module in modules[1:]:
        if len(", ".join([*named, module])) > NAMED_WIDTH:
            named.append("…")
            break
        named.append(module)
    return f"[import {', '.join(named) or '…'}]"


class Imports:
    """Find those of a tree, by its columns (of the profile's nodes, or folded ones).

    `where`: 1 for each node of an import statement or below one, `outer`: 1 for the outermost of
    them, `top`: 1 for the outermost modules that they ran, `rest`: 1 for the statements and what is
    in none, `node`: for each node the nearest of `rest`.
    """

    def __init__(self, profile: Profile, parent: Buffer, frame: Buffer) -> None:
        self._frame, self._n_frames = frame, max(profile.frames, default=0) + 1
        kinds = bytearray(self._n_frames)
        for each in profile.frames.values():
            if each.name == "<module>":
                kinds[each.id] = _MODULE
        for number in import_frames(profile):
            kinds[number] = _IMPORT
        states = bytes(descend(parent, take(kinds, frame), _STEPS))
        self.where = states.translate(_is(_TOP, _BELOW, _IMPORTLIB, _OUTER))
        self.outer = states.translate(_is(_OUTER))
        self.rest = states.translate(_is_not(_TOP, _BELOW, _IMPORTLIB))
        self._in_module = states.translate(_is(_TOP, _BELOW))
        self.top = states.translate(_is(_TOP))
        self._top = nearest(parent, self.top)
        self.node = nearest(parent, self.rest)

    def modules(self, labels: dict[int, str], weights: Buffer) -> list[str]:
        """Return the outermost modules by the weights of nodes, the heaviest first."""
        top = take(self._frame, self._top)
        by_frame = add_up(top, weights, self._n_frames, self._in_module)
        found = [(-weight, frame) for frame, weight in enumerate(by_frame) if weight and frame]
        return [module_of(labels[frame]) for _, frame in sorted(found)]


@made_once
def imports_of(profile: Profile) -> Imports:
    """Return those of the profile's nodes."""
    return Imports(profile, profile.nodes.parent, profile.nodes.frame)


def exact_without_imports(profile: Profile) -> tuple[ExactTable, list[str]]:
    """Return the table `exact` without what import statements run, whose time is theirs, and the
    modules that they ran, by that time."""
    nodes, exact = profile.nodes, profile.exact
    found = imports_of(profile)
    self_ns = add_up(exact.node, exact.self_ns, len(nodes.parent))
    rest = exact.where(take(found.rest, exact.node))
    for row in rows_from(take(found.outer, rest.node), 1):
        rest.self_ns[row] = rest.total_ns[row]
    return rest, found.modules(labels_of(profile), self_ns)
