"""The exact half of a spool: each thread's tree of calls, joined with the sampled tree's nodes.

Events and samples number their nodes apart (src/record/spool.h).  A node is one by its path of
frames;
paths without a stack are added.

Self times are found in the events' own trees: there calls of a C function and the same function
where no call led to it (an iterator's) are two nodes, but one in the file.
"""

from array import array
from collections.abc import Collection, Iterator
from itertools import compress
from operator import add
from typing import Any

from pyhybrid import _columns
from pyhybrid._columns import LINE_LIMIT, NATIVE_LIMIT, mark, pairs, rows_from, take
from pyhybrid.assemble.trees import Forest, Tree
from pyhybrid.spool import EXACT_COUNT
from pyhybrid.spool.content import Spool, Ticks
from pyhybrid.tables import Backward, Exact, Line
from pyhybrid.tables.exact_table import ExactTable

_MOST_CALLS = 1 << 50  # a month of nothing else


def exact_table(
    spool: Spool, forest: Forest, tree: Tree, wrappers: Collection[int] = ()
) -> ExactTable:
    """Return the table, thread by thread.

    A total is that of all activations of the path; of what ran when the process was killed, up to
    its last round of counters.  Frames that are `wrappers` have no rows: their time is their
    callers'.
    """
    ticks = Ticks(spool)
    clock: Any = (ticks.multiply, ticks.divide, ticks.last, spool.end is None)
    is_kept = bytes(
        word < LINE_LIMIT and frame not in wrappers
        for word, frame in zip(forest.words, tree.frame_of_word, strict=True)
    )
    kept = take(is_kept, forest.word)
    table = ExactTable()
    for index, rows in sorted(forest.exact.items(), key=lambda item: spool.exact_threads[item[0]]):
        tree_rows = spool.exact_parents[index], tree.of_row[rows], kept[rows]
        counts = spool.exact_counts[index]
        try:
            columns = list(_columns.exact_rows(*tree_rows, counts, *clock))
        except OverflowError:
            spool.n_damaged += _drop_impossible(counts, ticks)
            columns = list(_columns.exact_rows(*tree_rows, counts, *clock))
        thread = array("I", [spool.exact_threads[index]]) * len(columns[0])
        columns.insert(0, memoryview(thread))
        table.add(columns)
    return table


def _drop_impossible(counts: bytearray, ticks: Ticks) -> int:
    """Put zeros in place of rows of a thread that cannot be: calls of a path do not run beside one
    another, so none took longer than the run.  Returns how many there were."""
    size, most = EXACT_COUNT.size, ticks.most
    n = 0
    for at in range(0, len(counts), size):
        _, _, calls, resumes, total, since = EXACT_COUNT.unpack_from(counts, at)
        if total > most or since > ticks.last + most or max(calls, resumes) > _MOST_CALLS:
            counts[at : at + size] = bytes(size)
            n += 1
    return n


def with_objects(exact: ExactTable, tree: Tree, objects: Collection[int]) -> ExactTable:
    """Return the table with rows for the frames `objects`, of which events count nothing: the sums
    of what is called for them, right below.  They have no time of their own."""
    n_frames = max(tree.node_frames, default=0) + 1
    is_object = bytes(frame in objects for frame in range(n_frames))
    above = take(tree.node_parents, exact.node)
    sums: dict[tuple[int, int], list[int]] = {}
    for row in rows_from(take(is_object, take(tree.node_frames, above)), 1):
        _, _, *figures = exact[row]
        of_object = sums.setdefault((exact.thread[row], above[row]), [0] * len(figures))
        of_object[:] = map(add, of_object, figures)
    if not sums:
        return exact
    rows = [Exact(*key, *figures)._replace(self_ns=0) for key, figures in sums.items()]
    columns = zip(exact.columns, ExactTable.of(rows).columns, strict=True)
    return ExactTable.in_order([counted + added for counted, added in columns])


def unsampled_calls(forest: Forest, tree: Tree) -> list[int]:
    """Return the nodes of native functions that samples met where they called what led to Python,
    and that did so from other places, too."""
    is_native = bytes(0 < word < NATIVE_LIMIT for word in forest.words)

    def calls(rows: slice, where: memoryview) -> set[tuple[int, int]]:
        here = rows_from(where, 1)
        node, word = take(tree.of_row[rows], here), take(forest.word[rows], here)
        return {(node[at], word[at]) for at in pairs(node, word)[1]}

    stacks = forest.stacks
    sampled = calls(stacks, take(is_native, forest.word[stacks]))
    nodes = array("I", {node for node, _ in sampled})
    met = mark(nodes, len(tree.node_parents))
    found: set[int] = set()
    for rows in forest.exact.values():
        places = calls(rows, take(met, tree.of_row[rows])) - sampled
        found.update(node for node, word in places if is_native[word])
    return sorted(found)


def line_rows(spool: Spool, forest: Forest, tree: Tree) -> Iterator[Line]:
    """Yield the lines of chosen functions, which the spool has as leaves below their nodes."""
    ticks = Ticks(spool)
    is_line = bytes(word >= LINE_LIMIT for word in forest.words)
    marked = take(is_line, forest.word)
    for index, rows in forest.exact.items():
        records: dict[tuple[int, int], list[int]] = {}
        for row in compress(range(rows.start, rows.stop), marked[rows]):
            at = (row - rows.start) * EXACT_COUNT.size
            _, _, calls, _, n_ticks, _ = figures = EXACT_COUNT.unpack_from(
                spool.exact_counts[index], at
            )
            if any(figures):
                key = tree.of_row[row], forest.words[forest.word[row]] - LINE_LIMIT
                record = records.setdefault(key, [0, 0])
                record[0] += calls
                record[1] += n_ticks
        for (node, line), (hits, n_ticks) in sorted(records.items()):
            yield Line(spool.exact_threads[index], node, line, hits, ticks.span(n_ticks))


def backward_rows(spool: Spool, nodes: dict[int, memoryview]) -> Iterator[Backward]:
    """Yield the work of autograd nodes; `nodes` are those of each thread's exact tree."""
    ticks = Ticks(spool)
    sums: dict[tuple[int, int, str], list[int]] = {}
    for each in spool.backward_sums:
        name = spool.backward_names.get(each.name, "?")
        where = (0, 0)
        if each.node:
            where = spool.exact_threads[each.thread], nodes[each.thread][each.node]
        figures = sums.setdefault((*where, name), [0, 0])
        figures[0] += each.calls
        figures[1] += each.ticks
    for key, (calls, n_ticks) in sorted(sums.items()):
        yield Backward(*key, calls, ticks.span(n_ticks))
