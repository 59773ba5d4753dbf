"""The call tree as people read it: without plumbing.

Folding maps every node of a profile onto a node of a smaller tree; samples keep their count.
Plumbing is left out, by the rules of plumbing.toml: the children hang on the nearest frame that is
kept.  And a run of functions without names is one frame: all of a library's are one there, so that
paths are equal which differ in addresses alone.  Those of an interpreter without symbols (as
distributions ship it) are plumbing on the way to what Python calls: there they are the chain from
an eval loop to the next one.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from functools import cache, cached_property

from pyhybrid._columns import add_up, descend, inclusive, paths, take
from pyhybrid.base.pseudo_frames import BRIDGED, DECORATED
from pyhybrid.frameworks import ipython, torch
from pyhybrid.symbols.called_lambdas import CALLED_LAMBDA
from pyhybrid.symbols.plumbing import (
    IMPORT_FILES,
    IMPORT_KEPT,
    KERNEL_MODULE,
    is_inlined_plumbing,
    is_interpreter,
    is_plumbing,
    is_trampoline,
    is_wrapper,
    plain_symbol,
    starts_threads,
)
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.imports import Imports
from pyhybrid.views.labels import shorten_native

# What a frame is to folding.  WRAPPER: plumbing, unless its calls are counted; EXEC: the builtin;
# NAMELESS: a run of them is one frame; NAMELESS_START: the same, but plumbing where it is the
# outermost; NAMELESS_GLUE: the same, but plumbing where it leads to what Python calls; IMPORT:
# importlib's, plumbing with the exec that it calls; LAMBDA: what has a lambda's name
# (symbols/called_lambdas.py): so may what calls it, and a run of them is one.
KEPT, NATIVE, PLUMBING, WRAPPER, EXEC, NAMELESS, NAMELESS_START, IMPORT, LAMBDA = range(9)
NAMELESS_GLUE = 9

IN_RUNS = NAMELESS, NAMELESS_START, NAMELESS_GLUE, LAMBDA
COUNTED = 16  # added to the kind of a node whose calls were counted

# How a node becomes part of the folded tree (_columns.paths); BY_IMPORT: it is importlib's, or
# carries out its exec.
ABOVE, NOT_FIRST, RUN, BY_IMPORT = 1, 2, 4, 8


def _step(above: int, kind: int) -> int:
    """Return how a node of this kind is folded below one that is folded like `above`."""
    counted, kind = kind & COUNTED, kind & ~COUNTED
    how = 0
    if kind == IMPORT or (kind in (PLUMBING, EXEC) and above & BY_IMPORT):
        how |= BY_IMPORT
    if (
        kind in (PLUMBING, IMPORT)
        or (kind == WRAPPER and not counted)
        or (kind == EXEC and how & BY_IMPORT)
    ):
        how |= ABOVE
    if kind == NAMELESS_START:
        how |= NOT_FIRST
    if kind in IN_RUNS:
        how |= RUN
    return how


_STEPS = bytes(_step(above, kind) for above in range(2 * BY_IMPORT) for kind in range(256))


class FoldedTree:
    """Fold the tree of one profile.

    `parent` and `frame` are indexed by folded node; 0 is the root, parents come first.  `of_node`
    maps the profile's nodes to folded nodes: that of the nearest frame that is kept; `stand_in`
    is which frame is shown for another one, `kinds` what each is (`classify`).  With `all_frames`
    nothing is folded: the tree is the profile's.
    """

    def __init__(self, profile: Profile, all_frames: bool = False) -> None:
        self._profile = profile
        self.parent: array[int] | memoryview
        self.frame: array[int] | memoryview
        self.of_node: array[int] | memoryview
        if all_frames:
            self.parent, self.frame = profile.nodes.parent, profile.nodes.frame
            self.of_node = array("I", range(len(self.parent)))
            self.stand_in: dict[int, int] = {}
            self.kinds: dict[int, int] = {}
            return
        self.kinds = kinds = classify(profile)
        self.stand_in = _stand_ins(profile, kinds)
        parent, frame = profile.nodes.parent, profile.nodes.frame
        numbers = range(max(kinds, default=0) + 1)
        kind = bytearray(take(bytes(kinds.get(number, KEPT) for number in numbers), frame))
        stand_ins = array("I", (self.stand_in.get(number, number) for number in numbers))
        shown = array("I", take(stand_ins, frame))
        if profile.meta.get("cells"):
            for node in _above_cells(profile, kinds):
                kind[node] = PLUMBING
        for node in _glue(profile, kinds):
            kind[node] = PLUMBING
        if profile.meta.get("c_calls"):
            for node in set(profile.exact.node):
                kind[node] |= COUNTED
                shown[node] = frame[node]
        how = descend(parent, kind, _STEPS)
        self.of_node, self.parent, self.frame = paths(parent, shown, how)

    @classmethod
    def of(cls, profile: Profile, all_frames: bool = False) -> "FoldedTree":
        """Return the profile's, made once: views and exporters share it."""
        return profile.once(_with_all_frames if all_frames else cls)

    @cached_property
    def imports(self) -> Imports:
        """Return what import statements run."""
        return Imports(self._profile, self.parent, self.frame)

    @cached_property
    def own_ns(self) -> memoryview:
        """Return the weight of the samples that ended in each node."""
        return self.of_samples(row.weight_ns for row in self._profile.sampled)

    def of_samples(self, values: Iterable[int]) -> memoryview:
        """Add up by node the values of the rows of `profile.sampled`."""
        sampled, node_of = self._profile.sampled, self._profile.stacks.node
        nodes = array("I", (node_of[row.stack] for row in sampled))
        return add_up(take(self.of_node, nodes), array("q", values), len(self.parent))

    def path(self, node: int) -> list[int]:
        """Return the frame ids from the root to a folded node."""
        frames = []
        while node:
            frames.append(self.frame[node])
            node = self.parent[node]
        return frames[::-1]


INSIDE = bytes([0, 1, *bytes(254)]) + b"\1" * 256  # steps: once marked, everything below is


def _with_all_frames(profile: Profile) -> FoldedTree:
    return FoldedTree(profile, all_frames=True)


# From the root down: 0 nothing is shown yet, 1 within what calls a cell, 2 the program.  A node's
# frame: 1 what calls a cell, 2 another Python function (or region), 3 what else is shown, 4 what is
# or calls the function that runs a cell.
_KERNEL = bytes(
    {0: {1: 1, 2: 2, 3: 2, 4: 1}, 1: {2: 2}, 2: {4: 1}}[above].get(kind, above)
    for above in range(3)
    for kind in range(256)
)


def _above_cells(profile: Profile, kinds: dict[int, int]) -> Iterator[int]:
    """Yield the nodes of what calls the cells of a notebook (ipython.toml)."""
    of_frame = bytearray(max(profile.frames, default=0) + 1)
    runs_cell = set()
    for frame in profile.frames.values():
        if frame.kind == "python":
            of_frame[frame.id] = 1 if ipython.is_kernel(frame.file or "") else 2
            if ipython.runs_cell(frame.file or "", frame.name):
                runs_cell.add(frame.id)
        elif frame.kind == "region":
            of_frame[frame.id] = 2
        elif kinds[frame.id] not in (PLUMBING, WRAPPER, EXEC, NAMELESS_START):
            of_frame[frame.id] = 3
    nodes = profile.nodes
    of_node = bytearray(take(of_frame, nodes.frame))
    calls = inclusive(nodes.parent, array("q", (frame in runs_cell for frame in nodes.frame)))
    for node, n in enumerate(calls):
        if n:
            of_node[node] = 4
    states = descend(nodes.parent, of_node, _KERNEL)
    return (node for node, state in enumerate(states) if state == 1)


def _glue(profile: Profile, kinds: dict[int, int]) -> Iterator[int]:
    """Yield the nodes of the interpreter's nameless functions below which Python, or code of
    another library than C's, was called."""
    glue = {number for number, kind in kinds.items() if kind == NAMELESS_GLUE}
    if not glue:
        return iter(())

    def is_called(frame: Frame) -> bool:
        if frame.kind != "native":
            return frame.kind in ("python", "region")
        module = profile.modules.get(frame.module or 0)
        if module is None or is_interpreter(module.path):
            return False
        named = kinds[frame.id] in (NATIVE, WRAPPER, LAMBDA)
        return named and not starts_threads(os.path.basename(module.path))

    called = {frame.id for frame in profile.frames.values() if is_called(frame)}
    parent, frame_of = profile.nodes.parent, profile.nodes.frame
    below = inclusive(parent, array("q", (frame in called for frame in frame_of)))
    return (node for node, frame in enumerate(frame_of) if frame in glue and below[node])


def _stand_ins(profile: Profile, kinds: dict[int, int]) -> dict[int, int]:
    """Return which frame stands for all nameless ones of its library, of the kernel or of JIT code;
    and which for all that have the name of one lambda."""
    first: dict[tuple[str, str], int] = {}
    one = {}
    for number in sorted(frame for frame, kind in kinds.items() if kind in IN_RUNS):
        frame = profile.frames[number]
        module = profile.modules.get(frame.module or 0)
        name = shorten_native(frame.name) if kinds[number] == LAMBDA else ""
        one[number] = first.setdefault((module.path if module else frame.kind, name), number)
    return one


@cache
def _native_kind(
    path: str,
    is_nameless: bool,
    declared: str | None,
    name: str,
    symbol: str | None,
    python_name: str | None,
) -> int:
    """Return what a function of the library at `path` is to folding; `declared`: in which file, if
    it is inlined."""
    file = os.path.basename(path)
    if is_nameless:
        if is_interpreter(file):
            return NAMELESS_GLUE
        return NAMELESS_START if starts_threads(file) else NAMELESS
    if is_inlined_plumbing(declared):
        return PLUMBING
    if plain_symbol(symbol) == "builtin_exec" or python_name == "builtins.exec":
        return EXEC
    if is_plumbing(file, symbol, python_name):
        return PLUMBING
    short = shorten_native(name)
    if short.partition(" [")[0].endswith(CALLED_LAMBDA):
        return LAMBDA
    return WRAPPER if is_wrapper(short) else NATIVE


def classify(profile: Profile) -> dict[int, int]:
    """Return what each frame is to folding."""

    has_objects = any(frame.is_object for frame in profile.frames.values())

    def native(frame: Frame) -> int:
        module = profile.modules.get(frame.module or 0)
        if module is None:
            if is_trampoline(frame.symbol):
                return PLUMBING
            return NAMELESS if frame.is_nameless else NATIVE
        declared = frame.file if frame.inlined else None
        names = frame.name, frame.symbol, frame.python_name
        return _native_kind(module.path, frame.is_nameless, declared, *names)

    def kind(frame: Frame) -> int:
        if frame.kind == "native":
            return native(frame)
        if frame.kind == "kernel":
            if not frame.symbol:
                return NAMELESS
            return PLUMBING if is_plumbing(KERNEL_MODULE, frame.symbol) else NATIVE
        if frame.symbol == BRIDGED and frame.kind == "pseudo":
            return PLUMBING
        if frame.kind == "python" and frame.file:
            if frame.name == DECORATED:
                return PLUMBING
            if has_objects and torch.is_plumbing(frame.file, frame.name):
                return PLUMBING
            if frame.file in IMPORT_FILES and frame.name != IMPORT_KEPT:
                return IMPORT
        return KEPT

    return {frame.id: kind(frame) for frame in profile.frames.values()}
