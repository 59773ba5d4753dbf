"""Passes over the columns of a call tree (src/columns/): loaded by whoever reads a profile.

A column is a buffer of uint32 (`array("I")`), int64 (`array("q")`) or uint8 (bytes), one value a
row.  A tree is its column of parents: row 0 is the root, and a parent's row is smaller than its
children's.  Results are read-only memoryviews of the same kinds.  All raise ValueError where
columns do not fit one another or make no tree, OverflowError where a sum has more than 63 bits,
and MemoryError.
"""

from collections.abc import Buffer
from typing import Any

Uint32 = memoryview  # cast to "I"
Int64 = memoryview  # cast to "q"
Uint8 = memoryview  # cast to "B"

NO_NUMBER: int  # in columns of int64: the row has none

# What the headers of src/ declare (constants.c).  A frame's word (src/base/frame.h), the spool
# (src/record/spool.h), kept calls (src/exact/kept_calls.h).
NATIVE_LIMIT: int
PSEUDO_LIMIT: int
REGION_LIMIT: int
C_CALL_LIMIT: int
LINE_LIMIT: int
KERNEL_LIMIT: int
REGION_OBJECT: int
REGION_CAUSE: int
ADDRESS_BITS: int
ADDRESS_MASK: int
OFFSET_BITS: int
OFFSET_MASK: int
OFFSET_UNKNOWN: int
PSEUDO_TRUNCATED: int
PSEUDO_UNKNOWN_PYTHON: int
PSEUDO_TREE_FULL: int
PSEUDO_IMPORT_FUNCTIONS: int
SPOOL_VERSION: int
SPOOL_MARK: int
SPOOL_REPLACED: int
SPOOL_LOSSES: int
STACK_MASK: int
GIL_SHIFT: int
WAITS: int
NAME_COMM: int
NAME_THREADING: int
ATTRIBUTE_NONE: int
ATTRIBUTE_FALSE: int
ATTRIBUTE_TRUE: int
ATTRIBUTE_INT: int
ATTRIBUTE_FLOAT: int
ATTRIBUTE_OTHER: int
CALL_ENDED: int
CALL_RAISED: int
WATCHED_COLLECTION: int
WATCHED_FREED: int
WATCHED_MADE_NONE: int
CALL_PARTIAL: int
CALL_FIRST: int
CALLS_BUCKETS: int
CALLS_FIRST: int
CALLS_OCTAVE: int
SPOOL_MAGIC: str
SPOOL_TYPES: dict[str, int]  # of records, by their name in enum spool_type
SPOOL_STRUCTS: dict[str, str]  # formats of the module `struct`, by the struct's name in C

def pairs(a: Buffer, b: Buffer) -> tuple[Uint32, Uint32]:
    """Number the distinct pairs of two uint32 columns: (group by row, first row by group)."""

def paths(
    parent: Buffer, label: Buffer, how: Buffer, rather: Buffer | None = None
) -> tuple[Uint32, Uint32, Uint32]:
    """Merge rows into paths of labels (uint32): (node by row, parent by node, label by node).

    Nodes are numbered in order of their first rows; 0 is the root.  Bits of `how` (uint8) say which
    rows are no step, but stand for the row above: 1: it is none; 2: none right below the root;
    4: none below a node of the same label.  `rather`: the row below whose path a row hangs instead,
    where its label has one there that an earlier row asked for (16 of its `how`).
    """

def descend(parent: Buffer, input: Buffer, step: bytes) -> Uint8:
    """Run a finite automaton from the root, whose state is 0, down to every row.

    A row's state is `step[256 * state + input]` of its parent's state and its input (uint8).
    """

def take(table: Buffer, index: Buffer) -> memoryview:
    """The values `table[i]` for each i of `index` (uint32); the table is of any kind."""

def order(high: Buffer, low: Buffer) -> Uint32:
    """The rows by two uint32 columns, (high, low); those that are equal in their order."""

def mark(index: Buffer, n_rows: int) -> Uint8:
    """1 for each row that is one of `index` (uint32)."""

def rows_from(value: Buffer, least: int) -> Uint32:
    """The rows whose value, of any kind, is `least` or more."""

def nearest(parent: Buffer, marked: Buffer) -> Uint32:
    """Of each row itself if it is marked (uint8), else the nearest marked row above it, or 0."""

def climb(parent: Buffer, value: Buffer, rows: Buffer, most: int) -> tuple[Int64, Int64]:
    """The values (int64) on the way from each of `rows` (uint32) to the root, but for the root's,
    `most` of each at most, one way after the other; and where each ends."""

def outermost(parent: Buffer, label: Buffer, marked: Buffer) -> Uint8:
    """1 where no marked row above has the row's label (uint32): the outermost of a recursion."""

def inclusive(parent: Buffer, value: Buffer) -> Int64:
    """Each row's value (int64) with those of all rows below it."""

def at_least(parent: Buffer, value: Buffer) -> Int64:
    """Each row's value (int64), or what its children's results add up to, where that is more."""

def add_up(group: Buffer, value: Buffer, n_groups: int, where: Buffer | None = None) -> Int64:
    """The sums of the values (int64) by group (uint32), of rows where `where` (uint8) is not 0."""

def distinct(value: Buffer) -> tuple[Uint32, Uint32]:
    """Number the distinct values of a column of 64 bits: (group by row, first row by group)."""

def shift(value: Buffer, by: int) -> Uint32:
    """The values (uint32) plus `by`."""

def relocate(
    address: Buffer,
    usual: Buffer,
    begin: Buffer,
    end: Buffer,
    module: Buffer,
    path: Buffer,
    by: Buffer,
    /,
) -> Int64:
    """The addresses (int64), each plus what its module is moved by.

    That is the one around the address that has the path of the `usual` one (uint32), else that one;
    0, and an address of NO_NUMBER: nothing is moved.  `begin`, `end` (int64) and `module` (uint32)
    are where modules lie, in order; `path` (uint32, a number for each) and `by` (int64) are of the
    modules, from 0 on.
    """

def restack(place: Buffer, row: Buffer, /) -> Uint32:
    """The places of samples, whose stacks are those of `row` (uint32) by their own."""

def shared_rows(n_more: int, /) -> Any:
    """A table of the rows of several trees, each a parent and a label (uint32) and `n_more` numbers
    of 64 bits: for the two below.  One thread at a time may use it."""

def share_rows(rows: Any, parent: Buffer, label: Buffer, /, *more: Buffer) -> Uint32:
    """Add a tree to a table, and return which row of it each of the tree's is.

    Rows of several trees are one where they are equal and so are their parents; rows of one tree
    never are: those that are equal there are one with as many in others.
    """

def shared_columns(rows: Any, /) -> tuple[memoryview, ...]:
    """The columns of a table: parent, label, and its other numbers (int64); row 0 is the root."""

def rows_follow(parent: Buffer, word: Buffer, first: int) -> int:
    """1 if rows (uint32, uint64) follow `first` others of a tree: each has a word that is not 0,
    and a parent before it."""

def exact_counts(into: bytearray, first: int, rows: Buffer) -> int:
    """Put the rows of an EXACT_COUNTERS record, of node `first` and those that follow, into those
    of all nodes, but for rows of zeros; returns how many others are of no node."""

def exact_rows(
    parent: Buffer,
    node: Buffer,
    kept: Buffer,
    counts: Buffer,
    multiply: int,
    divide: int,
    last_ticks: int,
    killed: bool,
    /,
) -> tuple[Uint32, Int64, Int64, Int64, Int64, Int64, Int64]:
    """The table `exact` of a thread, from its own tree: node, calls, resumes, raised, seeded,
    total_ns, self_ns, by node.

    `parent`, `node` (the file's), `kept` (uint8: has it figures of its own) are columns of the
    thread's rows, `counts` their EXACT_COUNTs.  A tick has multiply / divide nanoseconds; where the
    process was `killed`, what ran did so until `last_ticks`.
    """

CALLED_STAYS: int
CALLED_FOLDED: int

def fold_counts(
    parent: Buffer, number: Buffer, kept: Buffer, counts: Buffer, last_ticks: int, /
) -> tuple[Uint32, Uint32, Uint32, Int64, Int64, Int64, Int64, Int64, Uint8]:
    """A thread's own tree with fewer rows: those that are `kept` (uint8), and what is above them;
    of the others below each of these the EXACT_COUNTs are added up: a row more, behind all of them,
    where anything was counted.

    Returns rows that stay; of each row that was which one it is, or which one it is below; then of
    the rows that are the parent and the fields of the count; and of each `number` (uint32, of the
    function that a row is) CALLED_STAYS and CALLED_FOLDED, by which rows of it have calls.  What
    ran at the end did so until `last_ticks`.
    """

def line_runs(table: Buffer, first_line: int, /) -> tuple[Uint32, Int64, int]:
    """The lines of a code object by its co_linetable (src/columns/line_table.c), whose runs are in
    order: from which code unit on, which line (-1: none); and the first code unit behind it."""

def call_rows(
    turns: Buffer, node: Buffer, multiply: int, divide: int, ticks: int, ns: int, /
) -> tuple[Any, ...]:
    """The turns of a thread's kept calls, as the spool has them, in columns: row (all by begin,
    from 1), serial, node, info (flags | weight_bits << 16), around (the row of the innermost turn
    that it lies within, or 0), begin_ns, end_ns; how many, which come first, are a whole call; of
    attributes the call's serial, where they begin and how long they are; how many turns are
    damaged; the rows of those of which it is told what they used, and where.

    `node` (uint32): the file's for each of the thread's, from 1; a tick has multiply / divide
    nanoseconds, `ticks` were at `ns`.
    """

def call_usage(turns: Buffer, at: Buffer, /) -> tuple[Int64, ...]:
    """What turns used, at these places: cpu_begin_ns, cpu_end_ns (the thread's), user_ns,
    system_ns, process_ns, minor and major faults, voluntary and involuntary context switches,
    resident memory at begin and end in bytes; -1: not known."""

ROWS_AT_ONCE: int  # which one statement writes, of SQLite

def open_database(name: str, writable: bool, /) -> Any:
    """An SQLite database by path or URI, for the two below; it is closed when the last reference
    goes.  One thread at a time may use it.  They raise OSError, with SQLite's message."""

def read_columns(database: Any, sql: str, kinds: str, most_steps: int, /) -> tuple[memoryview, ...]:
    """The rows of a query, whose columns are of these kinds: I or q, and which may take so many
    steps of SQLite's machine.  Raises ValueError where a value is none of its kind."""

def write_columns(database: Any, insert: str, row: str, /, *columns: Buffer) -> None:
    """Put each row of the columns into a table, in one transaction, by SQL that begins with
    `insert` and goes on with `row`, whose parameters are a row's values, for several rows at once;
    `row` "": `insert` is of one."""

def trim_memory() -> None:
    """Give the system back what memory is free: large blocks leave holes where others follow."""
