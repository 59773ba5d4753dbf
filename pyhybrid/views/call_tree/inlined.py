"""Inlined functions as frames, and the source lines of native code, in what views read.

The file has them not: they are looked up in the debug information of what was hit, when a view or
an export is made (symbols/source_positions.py).  A stack row of a native function is one
address; where inlined calls contain it, the row's node becomes a chain: the function's own, then
one for each inlined call, the innermost last, where the row's samples are and what it
called.  All rows and weights stay as they are, and so do all nodes of the file: what is new comes
after them.

Left as they are:
- plumbing, and by what the program began: views leave these out (folded_tree.py);
- rows that stand at a function's start: so does the exact half's path where C code recurses;
- rows above exact figures, unless all calls on the way to these have the same chain: then the
  figures hang below it, too, else nobody knows which part of them does.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Any

from pyhybrid._columns import descend, inclusive, mark, rows_from, take
from pyhybrid.errors import PyhybridError
from pyhybrid.symbols.source_positions import (
    DebugFiles,
    Demangle,
    Fetch,
    OpenDebugInfo,
    Position,
    SourceFunction,
    default_reader,
)
from pyhybrid.tables import Call, CallTime, Frame, Line, Module, Nodes, Place
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Row
from pyhybrid.views.call_tree.folded_tree import IN_RUNS, INSIDE, NATIVE, WRAPPER, classify
from pyhybrid.views.call_tree.imports import imports_of

SOURCE = "debug info"  # of a frame's name
WITH_PLACES = NATIVE, WRAPPER, *IN_RUNS  # in a wrapper lies what it wraps

_IS_OUTSIDE = bytes([1, *bytes(255)])
FIGURES = (Call, CallTime, Line)  # of nodes that were counted, beside `exact`


def with_inlined(
    profile: Profile,
    fetch: Fetch | None = None,
    reader: tuple[OpenDebugInfo, Demangle] | None = None,
    limit_bytes: int = 0,
    imports: bool = True,
) -> tuple[Profile, list[str]]:
    """Return the profile with inlined functions, and notes; the profile itself where none are
    known.

    `fetch` gets debug files that are not on this machine; `limit_bytes` as of default_reader().
    Without `imports` none are sought in what import statements run, for views that fold it.
    """
    try:
        open_file, demangle = reader or default_reader(limit_bytes)
    except PyhybridError as error:
        return profile, [str(error)]
    files = DebugFiles(profile.meta, open_file, fetch)
    rows = _rows_on_paths(profile)
    sought = rows
    if not imports:
        outside = imports_of(profile).where.translate(_IS_OUTSIDE)
        of_row = take(array("I", profile.stacks.node), rows)
        sought = take(rows, rows_from(take(outside, of_row), 1))
    positions = _positions(profile, files, sought)
    above_exact = _without_unknown(profile, positions, rows)
    if not positions:
        return profile, files.notes
    return _Expansion(profile, positions, above_exact, demangle).profile(), files.notes


def _positions(profile: Profile, files: DebugFiles, rows: memoryview) -> dict[int, Position]:
    """Return the positions of native rows among `rows`; only files that these are in are opened."""
    modules, kinds = profile.modules, classify(profile)
    loads: defaultdict[tuple[str, str | None], list[Module]] = defaultdict(list)
    for module in modules.values():
        loads[module.path, module.build_id].append(module)
    known: dict[int, tuple[int, list[Module]]] = {}  # of frames: start, and the loads of the file
    for frame in profile.frames.values():
        if kinds[frame.id] in WITH_PLACES and frame.module:
            module = modules[frame.module]
            known[frame.id] = (frame.address or 0, loads[module.path, module.build_id])
    frames = take(profile.nodes.frame, take(array("I", profile.stacks.node), rows))
    is_known = bytes(frame in known for frame in range(max(profile.frames, default=0) + 1))
    addresses = profile.stacks.address
    rows_at: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # by frame and address
    for at in rows_from(take(is_known, frames), 1):
        row = rows[at]
        address = addresses[row]
        if address is not None:
            rows_at[frames[at], address].append(row)
    wanted: defaultdict[int, set[int]] = defaultdict(set)  # addresses, by module
    module_of: dict[tuple[int, int], int] = {}
    for place in rows_at:
        (start, of_file), address = known[place[0]], place[1]
        loaded = _covering(of_file, address)
        if loaded and address != loaded.base + start:
            module_of[place] = loaded.id
            wanted[loaded.id].add(address)
    found = {number: files.find(modules[number], wanted[number]) for number in wanted}
    return {
        row: position
        for place, number in module_of.items()
        if (position := found[number].get(place[1]))
        for row in rows_at[place]
    }


def _rows_on_paths(profile: Profile) -> memoryview:
    """Return the rows of stacks that were sampled, in order."""
    parents = array("I", profile.stacks.parent)
    sampled = mark(array("I", profile.sampled_stacks), len(parents))
    return rows_from(inclusive(parents, array("q", iter(sampled))), 1)


def _without_unknown(
    profile: Profile, positions: dict[int, Position], on_paths: memoryview
) -> dict[int, int]:
    """Take the chains from rows above exact figures where these may belong below different ones.

    `on_paths` are the rows that were sampled.  Returns one row for each node above such figures
    that has a chain.
    """
    stacks, nodes, n_nodes = profile.stacks, profile.stacks.node, len(profile.nodes.parent)
    node_of = take(array("I", nodes), on_paths)
    counted = set(node_of).intersection(profile.exact.node)
    with_chain = mark(array("I", {nodes[row] for row in positions}), n_nodes)
    # How many rows with figures there are below each, and itself.
    has_figures = take(mark(array("I", counted), n_nodes), node_of)
    figures = array("q", bytes(8 * len(nodes)))
    for at in rows_from(has_figures, 1):
        figures[on_paths[at]] = 1
    below = inclusive(array("I", stacks.parent), figures)
    calls: defaultdict[int, dict[int | None, int]] = defaultdict(dict)  # of a node: by address
    above: set[int] = set()
    for at in rows_from(take(with_chain, node_of), 1):
        row = on_paths[at]
        if below[row] > figures[row]:
            above.add(row)
            calls[nodes[row]].setdefault(stacks.address[row], row)
    # Files of older versions know no places.
    unknown = set(profile.meta.get("unsampled_calls", calls)) | counted
    same: dict[int, int] = {}
    for node, by_address in calls.items():
        rows = by_address.values()
        chains = {_chain(positions[row]) if row in positions else () for row in rows}
        if len(chains) > 1:
            unknown.add(node)
        elif chains != {()} and node not in unknown:
            same[node] = min(rows)
    for row in above & positions.keys():
        if nodes[row] in unknown:
            positions[row] = (None, 0, [], positions[row][-1])
    return same


def _chain(position: Position) -> tuple[SourceFunction, ...]:
    """Return the functions that are inlined at the address, outermost first."""
    _, _, inlined, containing = position
    functions = tuple(function for function, _, _ in inlined[::-1])
    # gcc's foo.part.0 has foo inlined
    return functions[1:] if functions and functions[0][1:] == containing[1:] else functions


def _covering(modules: list[Module], address: int) -> Module | None:
    """Return a file's load that has the address; where it was loaded twice at one place, either."""
    if len(modules) == 1:
        return modules[0]
    for module in modules:
        if any(start <= address < start + size for start, size, *_ in module.segments):
            return module
    return None


def _at_nodes(row: type[Row], rows: Sequence[Row], moved: Sequence[int]) -> list[Row]:
    """Return the rows, of these nodes in the place of theirs."""
    (at,) = row.table.that_refer("node")
    return [row._make((*each[:at], moved[each[at]], *each[at + 1 :])) for each in rows]


class _Expansion:
    """Build the profile's tables with the positions in them."""

    def __init__(
        self,
        profile: Profile,
        positions: dict[int, Position],
        above_exact: dict[int, int],
        demangle: Demangle,
    ) -> None:
        """Begin; `above_exact`: nodes above exact figures, and a row each, with their chain."""
        self._profile = profile
        self._positions = positions
        self._above_exact = above_exact
        self._demangle = demangle
        self._nodes = Nodes(profile.nodes.parent[:], profile.nodes.frame[:])
        self._frames = profile.frames.copy()
        self._numbers = count(max(profile.frames, default=0) + 1)
        self._inlined: dict[tuple[int | None, SourceFunction], int] = {}
        self._children: dict[tuple[int, int], int] = {}
        self._places: dict[int, list[Place]] = {}
        # By function and position, which all rows at an address share: the inlined frames, places.
        self._chains: dict[tuple[int, int], tuple[list[int], list[Place]]] = {}

    def profile(self) -> Profile:
        """Return a profile of its own, with the rest of the tables as they are."""
        self._declare()
        profile, stacks = self._profile, self._profile.stacks
        stacks = stacks._replace(node=self._node_of_rows())
        made: dict[str, Any] = {"stacks": stacks, "nodes": self._nodes, "frames": self._frames}
        rows: dict[type[Row], Sequence[Row]] = {}
        if self._above_exact:
            moved = self._moved()
            made["exact"] = profile.exact.at_nodes(moved)
            rows = {row: _at_nodes(row, profile[row], moved) for row in FIGURES}
        return profile.replaced(rows, places=self._places, **made)

    def _moved(self) -> list[int]:
        """Return each node's, where what was counted hangs below the samples' chains there."""
        nodes = self._profile.nodes
        moved = list(range(len(nodes.parent)))
        here = mark(array("I", self._above_exact), len(moved))
        for node in rows_from(descend(nodes.parent, here, INSIDE), 1):
            parent = nodes.parent[node]
            if moved[parent] != parent:
                moved[node] = self._child(moved[parent], nodes.frame[node])
            row = self._above_exact.get(node)
            if row is not None:
                moved[node] = self._expand(row, moved[node], self._positions[row])
        return moved

    def _declare(self) -> None:
        """Enter where the functions are declared, and names for those that no symbol has named."""
        found: defaultdict[int, set[SourceFunction]] = defaultdict(set)
        stacks, nodes = self._profile.stacks, self._profile.nodes
        for row, position in self._positions.items():
            found[nodes.frame[stacks.node[row]]].add(position[-1])
        for number, functions in found.items():
            frame = self._frames[number]
            name, file, line = functions.pop()
            if functions or frame.address is None:  # all without a known start are one frame
                continue
            if frame.symbol is None and name and frame.source != "method table":
                frame = frame._replace(name=self._demangle(name), symbol=name, source=SOURCE)
            self._frames[number] = frame._replace(file=file, line=line or None)

    def _node_of_rows(self) -> list[int]:
        """Return each row's node: the innermost of the chain that stands for it."""
        node_of, row_above = self._profile.stacks.node, self._profile.stacks.parent
        node_above, frame_of = self._profile.nodes.parent, self._profile.nodes.frame
        positions, moved = self._positions, node_of.copy()
        with_chain = mark(array("I", positions), len(moved))
        # Only what is below a chain gets another node.
        for row in rows_from(descend(array("I", row_above), with_chain, INSIDE), 1):
            node, above = node_of[row], row_above[row]
            parent = node_above[node]
            # A row's node may stand for the row above, too, or below one further out.
            while above and (at := node_of[above]) != parent and at != node:
                above = row_above[above]
            if above and node_of[above] == node:
                moved[row] = moved[above]
                continue
            if above and moved[above] != parent:
                node = self._child(moved[above], frame_of[node])
            moved[row] = self._expand(row, node, positions[row]) if row in positions else node
        return moved

    def _expand(self, row: int, node: int, position: Position) -> int:
        """Add a row's chain, below and with its function's node; returns the innermost node."""
        key = self._nodes.frame[node], id(position)
        if key not in self._chains:
            self._chains[key] = self._chain_at(key[0], position)
        frames, self._places[row] = self._chains[key]
        for frame in frames:
            node = self._child(node, frame)
        return node

    def _chain_at(self, frame: int, position: Position) -> tuple[list[int], list[Place]]:
        """Return the frames of the calls inlined into this one, and where in the source each is."""
        file, line, inlined, _ = position
        module, frames, places = self._frames[frame].module, [frame], []
        for function, call_file, call_line in inlined[: len(_chain(position))][::-1]:
            places.append(Place(frames[-1], call_file, call_line))
            frames.append(self._inlined_frame(module, function))
        return frames[1:], [*places, Place(frames[-1], file, line)]

    def _inlined_frame(self, module: int | None, function: SourceFunction) -> int:
        number = self._inlined.get((module, function))
        if number is None:
            number = self._inlined[module, function] = next(self._numbers)
            name, file, line = function
            shown = self._demangle(name) if name else "?"
            rest = (file, line or None, module, None, None, name, SOURCE, None)
            self._frames[number] = Frame(number, "native", shown, *rest, inlined=True)
        return number

    def _child(self, parent: int, frame: int) -> int:
        """Return a node that is new: those of the file keep their place."""
        key = parent, frame
        node = self._children.get(key)
        if node is None:
            node = self._children[key] = len(self._nodes.parent)
            self._nodes.parent.append(parent)
            self._nodes.frame.append(frame)
        return node
