"""Passes over the columns of a call tree (src/profile/): loaded by whoever reads a profile.

A column is a buffer of uint32 (`array("I")`), int64 (`array("q")`) or uint8 (bytes), one value a
row.  A tree is its column of parents: row 0 is the root, and a parent's row is smaller than its
children's.  Results are read-only memoryviews of the same kinds.  All raise ValueError where
columns do not fit one another or make no tree, OverflowError where a sum has more than 63 bits,
and MemoryError.
"""

from collections.abc import Buffer

Uint32 = memoryview  # cast to "I"
Int64 = memoryview  # cast to "q"
Uint8 = memoryview  # cast to "B"

def pairs(a: Buffer, b: Buffer) -> tuple[Uint32, Uint32]:
    """Number the distinct pairs of two uint32 columns: (group by row, first row by group)."""

def paths(parent: Buffer, label: Buffer, how: Buffer) -> tuple[Uint32, Uint32, Uint32]:
    """Merge rows into paths of labels (uint32): (node by row, parent by node, label by node).

    Nodes are numbered in order of their first rows; 0 is the root.  Bits of `how` (uint8) say which
    rows are no step, but stand for the row above: 1: it is none; 2: none right below the root;
    4: none below a node of the same label.
    """

def descend(parent: Buffer, input: Buffer, step: bytes) -> Uint8:
    """Run a finite automaton from the root, whose state is 0, down to every row.

    A row's state is `step[256 * state + input]` of its parent's state and its input (uint8).
    """

def take(table: Buffer, index: Buffer) -> memoryview:
    """The values `table[i]` for each i of `index` (uint32); the table is of any kind."""

def nearest(parent: Buffer, marked: Buffer) -> Uint32:
    """Of each row itself if it is marked (uint8), else the nearest marked row above it, or 0."""

def outermost(parent: Buffer, label: Buffer, marked: Buffer) -> Uint8:
    """1 where no marked row above has the row's label (uint32): the outermost of a recursion."""

def inclusive(parent: Buffer, value: Buffer) -> Int64:
    """Each row's value (int64) with those of all rows below it."""

def add_up(group: Buffer, value: Buffer, n_groups: int, where: Buffer | None = None) -> Int64:
    """The sums of the values (int64) by group (uint32), of rows where `where` (uint8) is not 0."""
