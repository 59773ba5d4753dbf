"""The trees of a spool as one, and the function-level tree: every stack row's node.

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
from array import array
from collections.abc import Sequence
from operator import or_
from typing import TYPE_CHECKING

from pyhybrid._columns import (
    C_CALL_LIMIT,
    LINE_LIMIT,
    NATIVE_LIMIT,
    PSEUDO_LIMIT,
    REGION_LIMIT,
    distinct,
    paths,
    shift,
    take,
)
from pyhybrid.spool.content import Spool
from pyhybrid.symbols.plumbing import is_plumbing
from pyhybrid.tables import NO_NUMBER, Nodes, StackColumns

if TYPE_CHECKING:
    from pyhybrid.assemble.frames import Frames


# All trees of a spool as one: the stacks', and below the same root each thread's exact tree.
#
# With counted calls of C functions the exact trees come first (Tree), else the stacks' does.
# A frame word is a number here, that of a distinct one.


class Forest:
    """Hold columns of all rows.

    `parents` are rows; `word` is the row's word's place in `words`, which are the distinct ones.
    `stacks` are the rows of the stacks' tree, `exact` those of each thread's by the exact half's
    number of it.
    """

    def __init__(self, spool: Spool) -> None:
        self._plant(spool, stacks_first=True)
        if any(C_CALL_LIMIT <= word < LINE_LIMIT for word in self.words):
            self._plant(spool, stacks_first=False)
        in_exact = set[int]().union(*(self.word[rows] for rows in self.exact.values()))
        self.exact_words = {self.words[each] for each in in_exact}
        self.stack_words = {self.words[each] for each in set(self.word[self.stacks])}

    def _plant(self, spool: Spool, stacks_first: bool) -> None:
        trees = list(zip(spool.exact_parents.values(), spool.exact_words.values(), strict=True))
        trees.insert(0 if stacks_first else len(trees), (spool.parents, spool.words))
        self.parents, words = array("I"), array("Q")
        slices = []
        for parents, of_tree in trees:
            begin = len(words)
            words += of_tree
            self.parents.frombytes(shift(parents, begin).cast("B"))
            self.parents[begin] = 0
            slices.append(slice(begin, len(words)))
        self.stacks = slices.pop(0 if stacks_first else -1)
        self.exact = dict(zip(spool.exact_words, slices, strict=True))
        self.word, first = distinct(words)
        self.words = [words[row] for row in first]


ABOVE, ASKED = 1, 16  # how a row becomes part of the tree (_columns.paths)


class Tree:
    """Hold rows and nodes of one spool; index 0 is the root in every column.

    `of_row`: the node of each of the forest's rows; `node_parents`, `node_frames`: of each node;
    `parents`, `nodes`: of each stack row, its parent row without phantoms, and its node;
    `frame_of_word`: the frame of each of the forest's words, 0 of those that are none.
    """

    def __init__(self, spool: Spool, forest: Forest, frames: "Frames", sampled: set[int]) -> None:
        """Build them; `sampled` are the ids of the stack rows that samples refer to."""
        stacks = forest.stacks
        self.frame_of_word = array(
            "I", (frames.exact.get(word) or frames.frame.get(word, 0) for word in forest.words)
        )
        is_line = bytes(not word or word >= LINE_LIMIT for word in forest.words)
        how = bytearray(take(is_line, forest.word))
        how[stacks] = bytes(len(spool.words))
        how[stacks.start] = ABOVE
        self.parents = array("I", spool.parents)
        if frames.phantoms:
            for row in self._skip_phantoms(spool.words, frames.phantoms, sampled):
                how[stacks.start + row] = ABOVE
        parents = forest.parents[:]
        parents[stacks] = _below(stacks, self.parents)
        rather = None
        if frames.c_names:
            is_call = bytes(ASKED * (C_CALL_LIMIT <= word < LINE_LIMIT) for word in forest.words)
            asked = take(is_call, forest.word)
            for rows in forest.exact.values():
                how[rows] = bytes(map(or_, how[rows], asked[rows]))
            rather = parents[:]
            rather[stacks] = _below(stacks, self._callers(spool, frames))
        label = take(self.frame_of_word, forest.word)
        self.of_row, self.node_parents, self.node_frames = paths(parents, label, how, rather)
        self.nodes = self.of_row[stacks]

    def exact_nodes(self, spool: Spool, forest: Forest) -> dict[int, memoryview]:
        """Return the nodes of each thread's exact tree as it was recorded; a line's is its
        function's."""
        nodes = {index: self.of_row[rows] for index, rows in forest.exact.items()}
        return nodes | {index: take(nodes[index], row) for index, row in spool.exact_rows.items()}

    def node_table(self) -> Nodes:
        """Return the table `node`."""
        parents, frames = self.node_parents.tobytes(), self.node_frames.tobytes()
        return Nodes(array("I", parents), array("I", frames))

    def stack_columns(self, forest: Forest, frames: "Frames") -> StackColumns:
        """Return the table `stack`."""
        word, columns = forest.word[forest.stacks], []
        for known in (frames.address, frames.offset, frames.line):
            of_word = array("q", (_number(known.get(word)) for word in forest.words))
            columns.append(array("q", take(of_word, word).tobytes()))
            columns[-1][0] = 0  # the root
        nodes = array("I", self.nodes.tobytes())
        return StackColumns(self.parents, nodes, *columns)

    def _callers(self, spool: Spool, frames: "Frames") -> "array[int]":
        """Return for each native row the row of the Python function (or region) that called it, if
        nothing but plumbing lies between; else 0."""
        plumbing = {
            row.id
            for row in frames.rows
            if row.module
            if is_plumbing(
                os.path.basename(spool.modules[row.module].path), row.symbol, row.python_name
            )
        }
        words = spool.words
        callers = array("I", [0])
        rows = zip(self.parents, words, strict=True)
        next(rows)
        for parent, word in rows:
            above = words[parent]
            if word >= NATIVE_LIMIT:
                callers.append(0)
            elif NATIVE_LIMIT <= above < PSEUDO_LIMIT or above >= REGION_LIMIT:
                callers.append(parent)
            else:
                callers.append(callers[parent] if frames.frame.get(above) in plumbing else 0)
        return callers

    def _skip_phantoms(
        self, words: Sequence[int], phantoms: set[int], sampled: set[int]
    ) -> set[int]:
        """Hang Python rows on the nearest real caller; returns the rows that nothing needs."""
        parents = self.parents
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


def _number(known: int | None) -> int:
    return NO_NUMBER if known is None else known


def _below(rows: slice, parents: "array[int]") -> "array[int]":
    """Return the parents of a tree as rows of the forest that it is in."""
    shifted = array("I", shift(parents, rows.start))
    shifted[0] = 0
    return shifted
