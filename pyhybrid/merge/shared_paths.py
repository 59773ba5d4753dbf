"""What several profiles have in common, once: modules, functions, call paths.

Each profile (`Part`) yields its rows in turn, and learns the numbers that they have in what is made
of all.  Two rows of one profile never become one, so sums of figures stay what they were.

Where a module was loaded differs by process: addresses in it become those of the first process that
had it.  A module that only a later one had, and that would lie where another one does, is moved.
"""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterator

from pyhybrid._columns import (
    STACK_MASK,
    relocate,
    rows_from,
    share_rows,
    shared_rows,
    take,
)
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Frame, Module, StackColumns
from pyhybrid.tables.profile import Profile

ROOM = 1 << 44  # from here on up no process has anything: programs are further up, or far below
PAGE = 1 << 21

type _Span = tuple[int, int]


class SharedPaths:
    """Hold the rows of all profiles so far, in the order of their ids, from 1 on; nodes and stacks
    as tables of _columns.shared_rows."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.frames: list[Frame] = []
        self.nodes = shared_rows(0)
        self.stacks = shared_rows(3)
        self.module_ids: dict[Hashable, int] = {}
        self.frame_ids: dict[Hashable, int] = {}
        self._spans: list[_Span] = []
        self._room = ROOM

    def place(self, spans: list[_Span]) -> int:
        """Return by how much a module with these addresses is moved."""
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
    """Map one profile's modules, frames, nodes and stacks to their numbers in what is shared.

    `module`, `frame`, `node` and `stack` have them by the profile's own, 0 for 0.
    """

    def __init__(self, shared: SharedPaths, profile: Profile) -> None:
        self._shared, self._profile = shared, profile
        self._numbers = {0: 0}  # of a module among this profile's, by id
        self._moved = array("q", [0])  # by such a number
        self.module = {0: 0} | dict(self._modules())
        self.frame = self._frames()
        nodes = profile.nodes
        frames = take(self.frame, nodes.frame)
        if len(rows_from(frames, 1)) < len(frames) - 1:
            raise LookupError("a node of no function")
        self.node = share_rows(shared.nodes, nodes.parent, frames)
        self.stack = self._stacks(profile.stack_columns)

    def _modules(self) -> Iterator[tuple[int, int]]:
        shared = self._shared
        loads: Counter[Hashable] = Counter()
        for module in self._profile.modules.values():
            what = module.path, module.build_id
            loads[what] += 1
            key = (*what, loads[what], tuple(s[1:] for s in module.segments))
            known = shared.module_ids.get(key)
            if known is None:
                by = shared.place([(start, start + size) for start, size, *_ in module.segments])
                segments = [
                    (start + by, size, offset, flags)
                    for start, size, offset, flags in module.segments
                ]
                known = shared.module_ids[key] = len(shared.modules) + 1
                moved = module._replace(id=known, base=module.base + by, segments=segments)
                shared.modules.append(moved)
            else:
                shared.modules[known - 1] = _live_longer(shared.modules[known - 1], module)
            self._numbers[module.id] = len(self._moved)
            self._moved.append(shared.modules[known - 1].base - module.base)
            yield module.id, known

    def _frames(self) -> "array[int]":
        shared, frames = self._shared, self._profile.frames
        ids, rows, module_of = shared.frame_ids, shared.frames, self.module
        found = array("I", bytes(4 * (max(frames, default=0) + 1)))
        taken: set[int] = set()
        for frame in frames.values():
            module = frame.module and module_of[frame.module]
            key = _what(frame, module)
            known = ids.get(key)
            if known is None or known in taken:
                known = ids[key] = len(rows) + 1
                rows.append(frame._replace(id=known, module=module))
            elif frame.python_name and not rows[known - 1].python_name:
                rows[known - 1] = frame._replace(id=known, module=module)
            taken.add(known)
            found[frame.id] = known
        return found

    def _stacks(self, stacks: StackColumns) -> memoryview:
        parent, node, address, *where = stacks
        if any(self._moved):
            address = self._relocated(address, node)
        found = share_rows(self._shared.stacks, parent, take(self.node, node), address, *where)
        if max(found, default=0) > STACK_MASK:
            raise PyhybridError("too many call paths for one profile")
        return found

    def _relocated(self, address: "array[int]", node: "array[int]") -> memoryview:
        """Return the stacks' addresses as they are in the new file."""
        profile, numbers = self._profile, self._numbers
        usual = array("I", bytes(4 * len(self.frame)))
        for frame in profile.frames.values():
            usual[frame.id] = numbers[frame.module or 0]
        paths = {"": 0}
        path, spans = array("I", [0]), list[tuple[int, int, int]]()
        for module in profile.modules.values():
            path.append(paths.setdefault(module.path, len(paths)))
            number = numbers[module.id]
            spans += ((start, start + size, number) for start, size, *_ in module.segments)
        begin, end, of = zip(*sorted(spans), strict=True) if spans else ((), (), ())
        where = array("q", begin), array("q", end), array("I", of)
        return relocate(
            address, take(take(usual, profile.nodes.frame), node), *where, path, self._moved
        )


def _live_longer(module: Module, other: Module) -> Module:
    """Return the time in which either of two loads of one was there."""
    ends = [end for end in (module.unload_ns, other.unload_ns) if end is not None]
    load_ns, unload_ns = min(module.load_ns, other.load_ns), max(ends) if len(ends) == 2 else None
    if (load_ns, unload_ns) == (module.load_ns, module.unload_ns):
        return module
    return module._replace(load_ns=load_ns, unload_ns=unload_ns)


def _what(frame: Frame, module: int | None) -> Hashable:
    """Return what makes a function one (schema.sql, `frame`); `module` is its one's new number."""
    _, kind, name, file, line, _, address, size, symbol, source, *_ = frame
    if kind == "python":
        return name, file, line
    if module:
        return module, address
    return kind, name, file, line, address, size, symbol, source
