"""What several profiles have in common, once: modules, functions, call paths.

Each profile (`Part`) tells its rows in turn, and learns the numbers that they have in what is made
of all.  Two rows of one profile never become one, so sums of figures stay what they were.

Where a module was loaded differs by process: addresses in it become those of the first process that
had it.  A module that only a later one had, and that would lie where another one does, is moved.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator

from pyhybrid._profile import STACK_MASK
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Frame, Module, Nodes, Stacks
from pyhybrid.tables.profile import Profile

ROOM = 1 << 44  # from here on up no process has anything: programs are further up, or far below
PAGE = 1 << 21

type _Span = tuple[int, int]


class SharedPaths:
    """The rows of all profiles so far, in the order of their ids, from 1 on."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.frames: list[Frame] = []
        self.nodes = Nodes(array("I", [0]), array("I", [0]))
        self.stacks = Stacks([0], [0], [0], [0], [0])
        self.module_ids: dict[Hashable, int] = {}
        self.frame_ids: dict[Hashable, int] = {}
        self.node_ids: dict[int, int] = {}
        self.stack_ids: dict[Hashable, int] = {}
        self._spans: list[_Span] = []
        self._room = ROOM

    def place(self, spans: list[_Span]) -> int:
        """By how much a module with these addresses is moved."""
        if not spans:
            return 0
        first, end = min(spans)[0], max(stop for _, stop in spans)
        moved = 0
        if any(begin < end and first < stop for begin, stop in self._spans):
            moved = self._room - first // PAGE * PAGE
            self._room += (end - first) // PAGE * PAGE + 2 * PAGE
        self._spans.append((first + moved, end + moved))
        return moved


class Part:
    """One profile's: what its modules, frames, nodes and stacks are called in what is shared."""

    def __init__(self, shared: SharedPaths, profile: Profile) -> None:
        self._shared, self._profile = shared, profile
        self.module = {0: 0} | dict(self._modules())
        self.frame = {0: 0} | dict(self._frames())
        self.node = self._nodes()
        self.stack = self._stacks()

    def _modules(self) -> Iterator[tuple[int, int]]:
        shared = self._shared
        loads: Counter[Hashable] = Counter()
        self._moved: dict[int, int] = {}
        self._begins: list[tuple[int, int, int]] = []  # address, its end, module
        for module in self._profile.modules.values():
            what = module.path, module.build_id
            loads[what] += 1
            key = (*what, loads[what], tuple(s[1:] for s in module.segments))
            known = shared.module_ids.get(key)
            spans = [(start, start + size) for start, size, *_ in module.segments]
            if known is None:
                by = shared.place(spans)
                segments = [
                    (start + by, size, offset, flags)
                    for start, size, offset, flags in module.segments
                ]
                known = shared.module_ids[key] = len(shared.modules) + 1
                moved = module._replace(id=known, base=module.base + by, segments=segments)
                shared.modules.append(moved)
            else:
                shared.modules[known - 1] = _live_longer(shared.modules[known - 1], module)
            self._moved[module.id] = shared.modules[known - 1].base - module.base
            self._begins += [(*span, module.id) for span in spans]
            yield module.id, known
        self._begins.sort()

    def _frames(self) -> Iterator[tuple[int, int]]:
        shared = self._shared
        taken: set[int] = set()
        for frame in self._profile.frames.values():
            row = frame._replace(module=frame.module and self.module[frame.module])
            key = _what(row)
            known = shared.frame_ids.get(key)
            if known is None or known in taken:
                known = shared.frame_ids[key] = len(shared.frames) + 1
                shared.frames.append(row._replace(id=known))
            elif row.python_name and not shared.frames[known - 1].python_name:
                shared.frames[known - 1] = row._replace(id=known)
            taken.add(known)
            yield frame.id, known

    def _nodes(self) -> "array[int]":
        ids, rows, nodes = self._shared.node_ids, self._shared.nodes, self._profile.nodes
        found = array("I", [0])
        for parent, frame in zip(nodes.parent[1:], nodes.frame[1:], strict=True):
            parent, frame = found[parent], self.frame[frame]
            known = ids.setdefault(parent << 32 | frame, len(rows.parent))
            if known == len(rows.parent):
                rows.parent.append(parent)
                rows.frame.append(frame)
            found.append(known)
        return found

    def _stacks(self) -> "array[int]":
        ids, rows, stacks = self._shared.stack_ids, self._shared.stacks, self._profile.stacks
        taken: set[int] = set()
        found = array("I", [0])
        each = zip(*stacks, strict=True)
        next(each)
        for parent, node, address, offset, line in each:
            frame = self._profile.frames[self._profile.nodes.frame[node]]
            if address is not None and frame.module:
                address += self._moved[self._module_at(address, frame.module)]
            row = found[parent], self.node[node], address, offset, line
            known = ids.get(row)
            if known is None or known in taken:
                known = ids[row] = len(rows.parent)
                for column, value in zip(rows, row, strict=True):
                    column.append(value)
            taken.add(known)
            found.append(known)
        if len(rows.parent) > STACK_MASK:
            raise PyhybridError("too many call paths for one profile")
        return found

    def _module_at(self, address: int, usual: int) -> int:
        """The module that is there; `usual` one of those that may be: a library can be loaded
        twice."""
        at = bisect_right(self._begins, (address, 1 << 64, 0)) - 1
        while at >= 0 and self._begins[at][0] <= address < self._begins[at][1]:
            module = self._begins[at][2]
            if self._profile.modules[module].path == self._profile.modules[usual].path:
                return module
            at -= 1
        return usual


def _live_longer(module: Module, other: Module) -> Module:
    """Of two loads of one the time in which either was there."""
    ends = [end for end in (module.unload_ns, other.unload_ns) if end is not None]
    return module._replace(
        load_ns=min(module.load_ns, other.load_ns), unload_ns=max(ends) if len(ends) == 2 else None
    )


def _what(frame: Frame) -> Hashable:
    """What makes a function one (schema.sql, `frame`)."""
    if frame.kind == "python":
        return frame.name, frame.file, frame.line
    if frame.module:
        return frame.module, frame.address
    return (
        *(frame.kind, frame.name, frame.file, frame.line, frame.address, frame.size),
        *(frame.symbol, frame.source),
    )
