"""The trees of a profile with Python frames alone, or native ones."""

from array import array
from collections import Counter

from pyhybrid._columns import nearest
from pyhybrid.base import pseudo_frames
from pyhybrid.tables import Nodes
from pyhybrid.tables.exact_table import ExactTable
from pyhybrid.tables.profile import Profile

PYTHON_ONLY, NATIVE_ONLY = "python", "native"


class OneKind:
    """Keep the frames of one kind only in the trees: what is left out is part of what called it."""

    def __init__(self, profile: Profile, frames: str) -> None:
        """Choose; `frames`: PYTHON_ONLY or NATIVE_ONLY."""
        kinds = ("native", "kernel") if frames == NATIVE_ONLY else ("python", "region")
        # Where native frames may be missing no Python one is, so that is no matter among these.
        hidden = () if frames == NATIVE_ONLY else (pseudo_frames.GAP, pseudo_frames.BRIDGED)
        kept = {
            frame.id
            for frame in profile.frames.values()
            if frame.kind in kinds or (frame.kind == "pseudo" and frame.symbol not in hidden)
        }
        nodes, stacks = profile.nodes, profile.stacks
        self.keeps_node = [frame in kept for frame in nodes.frame]
        keeps_row = [self.keeps_node[node] for node in stacks.node]
        of_node = nearest(nodes.parent, bytes(self.keeps_node))
        self.of_stack = nearest(array("I", stacks.parent), bytes(keeps_row))
        self._parents = nodes.parent
        self.nodes = Nodes(array("I", map(of_node.__getitem__, nodes.parent)), nodes.frame)
        self.stacks = stacks._replace(parent=[self.of_stack[parent] for parent in stacks.parent])

    def python_rows(self, rows: ExactTable) -> ExactTable:
        """Return the rows of what is kept, with the self time of C functions that are not."""
        kept = {(row.thread, row.node) for row in rows if self.keeps_node[row.node]}
        more: Counter[tuple[int, int]] = Counter()
        for row in rows:
            node = row.node
            while node and (row.thread, node) not in kept:
                node = self._parents[node]
            if node != row.node:
                more[row.thread, node] += row.self_ns
        return ExactTable.of(
            row._replace(self_ns=row.self_ns + more[row.thread, row.node])
            for row in rows
            if (row.thread, row.node) in kept
        )
