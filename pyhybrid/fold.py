"""The call tree as people read it: without plumbing and without our own frames.

Folding maps every node of a profile onto a node of a smaller tree; samples keep their count.  Two
things are left out:

- plumbing, by the rules of plumbing.toml: the children hang on the nearest frame that is kept;
- what lies above the program when `python -m pyhybrid` runs it: from the root through frames of
  pyhybrid's own to the `exec` by which the program begins, or, where the interpreter is stripped
  of that name, to the program's `<module>` (_start ... runpy ... pyhybrid ... exec | <module> ...).
  Samples of pyhybrid's own work before that keep their path.

And a run of functions without names is one frame: all of a library's are one there, so that paths
are equal which differ in addresses alone.
"""

import os
from itertools import count
from weakref import WeakKeyDictionary

from pyhybrid.callables import CALLED_LAMBDA
from pyhybrid.names import shorten_native
from pyhybrid.plumbing import (
    IMPORT_FILES,
    IMPORT_KEPT,
    KERNEL_MODULE,
    WRAPPERS_FILE,
    is_inlined_plumbing,
    is_plumbing,
    is_trampoline,
    is_wrapper,
    plain_symbol,
    starts_threads,
)
from pyhybrid.profile_file import Profile
from pyhybrid.pseudo import BRIDGED
from pyhybrid.rows import Frame, Nodes

# What a frame is to folding.  WRAPPER: plumbing, unless its calls are counted; EXEC: the builtin;
# MODULE_CODE: `<module>`; NAMELESS: a run of them is one frame; NAMELESS_START: the same, but
# plumbing where it is the outermost; IMPORT: importlib's, plumbing with the exec that it calls;
# LAMBDA: what has a lambda's name (callables.py): so may what calls it, and a run of them is one.
(
    KEPT,
    NATIVE,
    PLUMBING,
    WRAPPER,
    OWN,
    RUNPY,
    EXEC,
    MODULE_CODE,
    NAMELESS,
    NAMELESS_START,
    IMPORT,
    LAMBDA,
) = range(12)

IN_RUNS = NAMELESS, NAMELESS_START, LAMBDA

LEADING, OURS, OUR_WORK, PROGRAM = range(4)  # of a path, from the root on


class FoldedTree:
    """The folded tree of one profile.

    `parent` and `frame` are indexed by folded node; 0 is the root, parents come first.  `of_node`
    maps the profile's nodes to folded nodes: that of the nearest frame that is kept; `stand_in`
    says which frame is shown for another one.  With `all_frames` nothing is folded: the tree is the
    profile's.
    """

    def __init__(self, profile: Profile, all_frames: bool = False) -> None:
        if all_frames:
            self.parent, self.frame = list(profile.nodes.parent), list(profile.nodes.frame)
            self.of_node = list(range(len(self.parent)))
            self.stand_in: dict[int, int] = {}
            return
        self.parent = [0]
        self.frame = [0]
        self.of_node = [0]
        counted = {row.node for row in profile.exact} if profile.meta.get("c_calls") else set()
        kinds = classify(profile)
        begins, _ = _program_begins(profile.nodes, kinds)
        self.stand_in = _stand_ins(profile, kinds)
        ids: dict[tuple[int, int], int] = {}
        by_import: set[int] = set()  # importlib's frames, and what carries out its exec
        rows = zip(count(), profile.nodes.parent, profile.nodes.frame, strict=False)
        next(rows)
        for node, parent, frame in rows:
            above = 0 if node in begins else self.of_node[parent]
            kind = kinds[frame]
            shown = frame if node in counted else self.stand_in.get(frame, frame)
            if kind == IMPORT or (kind in (PLUMBING, EXEC) and parent in by_import):
                by_import.add(node)
            if (
                kind in (PLUMBING, IMPORT)
                or (kind == WRAPPER and node not in counted)
                or (kind == EXEC and (node in begins or node in by_import))
                or (kind == NAMELESS_START and not above)
                or (kind in IN_RUNS and self.frame[above] == shown)
            ):
                self.of_node.append(above)
                continue
            key = (above, shown)
            folded = ids.get(key)
            if folded is None:
                folded = ids[key] = len(self.parent)
                self.parent.append(above)
                self.frame.append(shown)
            self.of_node.append(folded)

    @classmethod
    def of(cls, profile: Profile, all_frames: bool = False) -> "FoldedTree":
        """The profile's, made once: views and exporters share it."""
        made = _made.setdefault(profile, {})
        if all_frames not in made:
            made[all_frames] = cls(profile, all_frames)
        return made[all_frames]

    def path(self, node: int) -> list[int]:
        """The frame ids from the root to a folded node."""
        frames = []
        while node:
            frames.append(self.frame[node])
            node = self.parent[node]
        return frames[::-1]


_made: WeakKeyDictionary[Profile, dict[bool, FoldedTree]] = WeakKeyDictionary()


def own_nodes(profile: Profile) -> set[int]:
    """The nodes of pyhybrid's own work, and of what called it (`-m pyhybrid`: runpy)."""
    kinds = classify(profile)
    begins, state = _program_begins(profile.nodes, kinds)
    own: set[int] = set()
    rows = zip(count(), profile.nodes.parent, profile.nodes.frame, strict=False)
    next(rows)
    for node, parent, frame in rows:
        kind = kinds[frame]
        calls_program = profile.frames[frame].name.endswith(".wrapper")  # api.profile's
        if (
            state[node] in (OURS, OUR_WORK)
            or kind == OWN
            or (state[node] == LEADING and kind == RUNPY)
            or (parent in own and state[node] == PROGRAM == state[parent])
        ):
            own.add(node)
        if kind == OWN and calls_program:
            own.discard(node)
    return own | {node for node in begins if kinds[profile.nodes.frame[node]] == EXEC}


def _program_begins(nodes: Nodes, kinds: dict[int, int]) -> tuple[set[int], list[int]]:
    """The nodes at which pyhybrid hands over to the program: an exec, or a module's code; and each
    node's state.

    A path is LEADING from the root through native frames and runpy's, OURS from the first frame
    of pyhybrid's on, and PROGRAM from what is neither on, or OUR_WORK where pyhybrid called it.
    """
    state = [LEADING] * len(nodes.parent)
    begins = set()
    rows = zip(count(), nodes.parent, nodes.frame, strict=False)
    next(rows)
    for node, parent, frame in rows:
        kind, before = kinds[frame], state[parent]
        if before in (PROGRAM, OUR_WORK):
            state[node] = before
        elif kind == OWN:
            state[node] = OURS
        elif before == OURS and kind in (EXEC, MODULE_CODE):
            state[node] = PROGRAM
            begins.add(node)
        else:
            other = OUR_WORK if before == OURS else PROGRAM
            state[node] = other if kind in (KEPT, MODULE_CODE) else before
    return begins, state


def _stand_ins(profile: Profile, kinds: dict[int, int]) -> dict[int, int]:
    """Which frame stands for all nameless ones of its library, of the kernel or of JIT code; and
    which for all that have the name of one lambda."""
    first: dict[tuple[str, str], int] = {}
    one = {}
    for number in sorted(frame for frame, kind in kinds.items() if kind in IN_RUNS):
        frame = profile.frames[number]
        module = profile.modules.get(frame.module or 0)
        name = shorten_native(frame.name) if kinds[number] == LAMBDA else ""
        one[number] = first.setdefault((module.path if module else frame.kind, name), number)
    return one


def classify(profile: Profile) -> dict[int, int]:
    """What each frame is to folding."""
    package = os.path.join(str(profile.meta.get("package_dir") or "?"), "")

    def native(frame: Frame) -> int:
        module = profile.modules.get(frame.module or 0)
        if module is None:
            if is_trampoline(frame.symbol):
                return PLUMBING
            return NAMELESS if frame.is_nameless else NATIVE
        file = os.path.basename(module.path)
        if frame.is_nameless:
            return NAMELESS_START if starts_threads(file) else NAMELESS
        if frame.inlined and is_inlined_plumbing(frame.file):
            return PLUMBING
        symbol = plain_symbol(frame.symbol)
        if symbol == "builtin_exec" or frame.python_name == "builtins.exec":
            return EXEC
        if is_plumbing(file, frame.symbol, frame.python_name):
            return PLUMBING
        short = shorten_native(frame.name)
        if short.partition(" [")[0].endswith(CALLED_LAMBDA):
            return LAMBDA
        return WRAPPER if is_wrapper(short) else NATIVE

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
            if frame.file.endswith(WRAPPERS_FILE):
                return PLUMBING
            if frame.file.startswith(package):
                return OWN
            if frame.file == "<frozen runpy>" or frame.file.endswith("/runpy.py"):
                return RUNPY
            if frame.file in IMPORT_FILES and frame.name != IMPORT_KEPT:
                return IMPORT
            if frame.name == "<module>":
                return MODULE_CODE
        return KEPT

    return {frame.id: kind(frame) for frame in profile.frames.values()}
