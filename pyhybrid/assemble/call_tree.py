"""The function-level tree: every stack row's node.

A stack row is (parent row, address or instruction); its node is (parent node, frame).  Rows and
nodes alike come after their parents.

Phantoms.  A Python frame whose instruction lies before its code's first traceable one has not
begun: the shim that runs `__init__` (3.12+), whose code object is `__init__` too, is one.  As the
*caller of a Python frame* it is not a frame and is left out: the rows below it hang on its parent.
As the sampled leaf, or as the caller of native code (a closure's or generator's prologue
allocating memory), it did run and stays.

Counted calls of C functions.  Such a node is a child of its Python caller's.  For samples of the
function to be there, too, the plumbing between the two (symbols/plumbing.py) is left out of their
paths.
"""

import os
from itertools import count

from pyhybrid.assemble.frames import Frames
from pyhybrid.spool.frame_words import (
    C_CALL_LIMIT,
    LINE_LIMIT,
    NATIVE_LIMIT,
    PSEUDO_LIMIT,
    REGION_LIMIT,
)
from pyhybrid.spool.records import Spool
from pyhybrid.symbols.plumbing import is_plumbing


class Tree:
    """Rows and nodes of one spool; index 0 is the root in every list.

    `parents`, `nodes`: of each stack row, its parent row without phantoms, and its node;
    `node_parents`, `node_frames`: of each node.
    """

    def __init__(self, spool: Spool, frames: Frames, sampled: set[int]) -> None:
        """`sampled` are the ids of the stack rows that samples refer to."""
        self.parents = spool.parents.tolist()
        self.nodes: list[int] = [0]
        self.node_parents: list[int] = [0]
        self.node_frames: list[int] = [0]
        self._words = spool.words
        skipped = self._skip_phantoms(frames.phantoms, sampled) if frames.phantoms else set()
        self._ids = ids = dict[tuple[int, int], int]()
        nodes, node_parents, node_frames = self.nodes, self.node_parents, self.node_frames
        called = self._called(spool, frames)
        callers = self._callers(spool, frames) if called else []
        rows = zip(count(), self.parents, map(frames.frame.get, self._words), strict=False)
        next(rows)
        for row, parent, frame in rows:
            if row in skipped:
                nodes.append(nodes[parent])
                continue
            key = (nodes[parent], frame or 0)
            if called and ids.get((nodes[callers[row]], key[1])) in called:
                key = (nodes[callers[row]], key[1])
            node = ids.get(key)
            if node is None:
                node = ids[key] = len(node_parents)
                node_parents.append(key[0])
                node_frames.append(key[1])
            nodes.append(node)

    def child(self, parent: int, frame: int) -> int:
        """The node (parent, frame), which is added if there is none."""
        node = self._ids.get((parent, frame))
        if node is None:
            node = self._ids[parent, frame] = len(self.node_parents)
            self.node_parents.append(parent)
            self.node_frames.append(frame)
        return node

    def exact_nodes(self, spool: Spool, frames: Frames, index: int) -> list[int]:
        """The nodes of a thread's exact tree; those that are not there are added.

        A line's is its function's.
        """
        nodes = [0]
        rows = zip(spool.exact_parents[index], spool.exact_words[index], strict=True)
        next(rows)
        for parent, word in rows:
            node = nodes[parent]
            nodes.append(node if word >= LINE_LIMIT else self.child(node, frames.exact[word]))
        return nodes

    def _called(self, spool: Spool, frames: Frames) -> set[int]:
        """The nodes of calls of C functions, which are added with all of the exact trees."""
        called: set[int] = set()
        for index, words in spool.exact_words.items() if frames.c_names else ():
            nodes = self.exact_nodes(spool, frames, index)
            rows = zip(nodes, words, strict=True)
            called.update(node for node, word in rows if C_CALL_LIMIT <= word < LINE_LIMIT)
        return called

    def _callers(self, spool: Spool, frames: Frames) -> list[int]:
        """Of each native row the row of the Python function (or region) that called it, if nothing
        but plumbing lies between; else 0."""
        plumbing = {
            row.id
            for row in frames.rows
            if row.module
            if is_plumbing(
                os.path.basename(spool.modules[row.module].path), row.symbol, row.python_name
            )
        }
        callers = [0]
        rows = zip(self.parents, self._words, strict=True)
        next(rows)
        for parent, word in rows:
            above = self._words[parent]
            if word >= NATIVE_LIMIT:
                callers.append(0)
            elif NATIVE_LIMIT <= above < PSEUDO_LIMIT or above >= REGION_LIMIT:
                callers.append(parent)
            else:
                callers.append(callers[parent] if frames.frame.get(above) in plumbing else 0)
        return callers

    def _skip_phantoms(self, phantoms: set[int], sampled: set[int]) -> set[int]:
        """Hang Python rows on the nearest real caller; returns the rows that nothing needs."""
        parents, words = self.parents, self._words
        rows = {row for row, word in enumerate(words) if word in phantoms}
        hop = list(range(len(parents)))
        needed = set(sampled)
        for row, word in enumerate(words):
            if word >= NATIVE_LIMIT:
                parents[row] = hop[parents[row]]
            else:
                needed.add(parents[row])
            if row in rows:
                hop[row] = parents[row]
        return rows - needed
