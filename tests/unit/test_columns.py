"""pyhybrid._columns: passes over columns, each against the same thing said in a line of Python."""

from __future__ import annotations

import sqlite3
import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spool_writer import call_turn

from pyhybrid._columns import (
    CALLED_FOLDED,
    CALLED_STAYS,
    NO_NUMBER,
    STACK_MASK,
    add_up,
    at_least,
    call_rows,
    call_usage,
    climb,
    descend,
    distinct,
    exact_counts,
    exact_rows,
    fold_counts,
    inclusive,
    mark,
    nearest,
    open_database,
    order,
    outermost,
    pairs,
    paths,
    read_columns,
    relocate,
    restack,
    rows_follow,
    rows_from,
    share_rows,
    shared_columns,
    shared_rows,
    shift,
    take,
    write_columns,
)
from pyhybrid.spool import EXACT_COUNT

Tree = tuple[list[int], list[int], list[int]]  # parent, label, marked


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    n = draw(st.integers(1, 60))
    parent = [0] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    label = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    marked = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return parent, label, [0, *marked[1:]]


def above(parent: list[int], row: int) -> list[int]:
    """The rows above, nearest first, without the root."""
    rows = []
    while row := parent[row]:
        rows.append(row)
    return rows


def uint32(values: Iterable[int]) -> array[int]:
    return array("I", values)


@pytest.mark.exhaustive
@given(trees())
def test_nearest_is_the_row_itself_or_the_first_marked_one_above(tree: Tree) -> None:
    parent, _, marked = tree
    expected = [
        next((at for at in (row, *above(parent, row)) if marked[at]), 0)
        for row in range(len(parent))
    ]
    assert nearest(uint32(parent), bytes(marked)).tolist() == expected


@pytest.mark.exhaustive
@given(trees(), st.integers(0, 5) | st.just(2**64 - 1), st.data())
def test_climb_is_the_row_and_those_above(tree: Tree, most: int, data: st.DataObject) -> None:
    parent, label, _ = tree
    rows = data.draw(st.lists(st.integers(0, len(parent) - 1)))
    ways = [[label[at] for at in (row, *above(parent, row)) if at][:most] for row in rows]
    values, ends = climb(uint32(parent), array("q", label), uint32(rows), most)
    assert values.tolist() == [value for way in ways for value in way]
    assert ends.tolist() == [sum(map(len, ways[: i + 1])) for i in range(len(ways))]


@pytest.mark.exhaustive
@given(trees())
def test_outermost_is_what_has_no_marked_row_of_its_label_above(tree: Tree) -> None:
    parent, label, marked = tree
    expected = [
        all(not marked[at] or label[at] != label[row] for at in above(parent, row))
        for row in range(len(parent))
    ]
    found = outermost(uint32(parent), uint32(label), bytes(marked)).tolist()
    assert found[1:] == expected[1:]


@pytest.mark.exhaustive
@given(trees())
def test_inclusive_adds_what_is_below(tree: Tree) -> None:
    parent, value, _ = tree
    expected = list(value)
    for row in range(1, len(parent)):
        for at in {*above(parent, row), 0}:
            expected[at] += value[row]
    assert inclusive(uint32(parent), array("q", value)).tolist() == expected


@pytest.mark.exhaustive
@given(trees())
def test_at_least_is_what_the_children_add_up_to(tree: Tree) -> None:
    parent, value, _ = tree
    expected = list(value)
    for row in reversed(range(len(parent))):
        below = (expected[at] for at in range(1, len(parent)) if parent[at] == row)
        expected[row] = max(value[row], sum(below))
    assert at_least(uint32(parent), array("q", value)).tolist() == expected


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**32 - 1)), max_size=3000))
def test_pairs_are_numbered_in_order_of_their_first_rows(rows: list[tuple[int, int]]) -> None:
    numbers = defaultdict[tuple[int, int], int](lambda: len(numbers))
    expected = [numbers[row] for row in rows]
    group, first = pairs(uint32([a for a, _ in rows]), uint32([b for _, b in rows]))
    assert group.tolist() == expected
    assert [rows[at] for at in first] == list(numbers)


@pytest.mark.exhaustive
@given(trees(), st.data())
def test_paths_are_one_where_their_labels_are(tree: Tree, data: st.DataObject) -> None:
    parent, label, _ = tree
    n = len(parent)
    label = [0, *(each + 1 for each in label[1:])]
    how = data.draw(st.lists(st.integers(0, 15), min_size=n, max_size=n))
    path: list[tuple[int, ...]] = [()]
    for row in range(1, n):
        above = path[parent[row]]
        no_step = (
            how[row] & 1
            or (how[row] & 2 and not above)
            or (how[row] & 4 and above[-1:] == (label[row],))
        )
        path.append(above if no_step else (*above, label[row]))
    numbers = {each: number for number, each in enumerate(dict.fromkeys(path))}
    node, node_parent, node_label = paths(uint32(parent), uint32(label), bytes(how))
    assert node.tolist() == [numbers[each] for each in path]
    assert node_parent.tolist() == [numbers[each[:-1]] for each in numbers]
    assert node_label.tolist() == [0, *(each[-1] for each in numbers if each)]


def test_more_paths_than_the_table_begins_with() -> None:
    n = 100_000
    parent = uint32([0, *range(n - 1), 0])
    label = uint32([0, *[7] * n])
    node, node_parent, node_label = paths(parent, label, bytes(n + 1))
    assert node.tolist() == [*range(n), 1]
    assert node_parent.tolist() == parent.tolist()[:n]
    assert node_label.tolist() == label.tolist()[:n]


@pytest.mark.exhaustive
@given(trees(), st.data())
def test_a_path_hangs_where_it_is_asked_for(tree: Tree, data: st.DataObject) -> None:
    parent, label, asked = tree
    label = [0, *(each + 1 for each in label[1:])]
    rather = [0] + [data.draw(st.integers(0, row - 1)) for row in range(1, len(parent))]
    ids: dict[tuple[int, int], int] = {}
    expected, asking = [0], set()
    for row in range(1, len(parent)):
        key = (expected[rather[row]], label[row])
        if ids.get(key) not in asking:
            key = (expected[parent[row]], label[row])
        expected.append(ids.setdefault(key, len(ids) + 1))
        if asked[row]:
            asking.add(expected[row])
    how = bytes(16 * each for each in asked)
    columns = paths(uint32(parent), uint32(label), how, uint32(rather))
    assert [each.tolist() for each in columns] == [
        expected,
        [0, *(parent for parent, _ in ids)],
        [0, *(label for _, label in ids)],
    ]


@pytest.mark.exhaustive
@given(trees(), st.binary(min_size=768, max_size=768))
def test_descend_is_an_automaton_from_the_root(tree: Tree, table: bytes) -> None:
    parent, inputs, _ = tree
    step = bytes(each % 3 for each in table)
    state = [0]
    for row in range(1, len(parent)):
        state.append(step[256 * state[parent[row]] + inputs[row]])
    assert descend(uint32(parent), bytes(inputs), step).tolist() == state


def test_more_pairs_than_the_table_begins_with() -> None:
    n = 100_000
    group, first = pairs(uint32(list(range(n)) * 2), uint32([7] * 2 * n))
    assert group.tolist() == first.tolist() * 2 == list(range(n)) * 2


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=3000))
def test_distinct_values_are_numbered_in_order_of_their_first_rows(values: list[int]) -> None:
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    group, first = distinct(array("Q", values))
    assert group.tolist() == [numbers[value] for value in values]
    assert [values[at] for at in first] == list(numbers)


@given(st.sampled_from("BIq"), st.lists(st.integers(0, 255)), st.integers(0, 256))
def test_rows_from_a_value_on(kind: str, values: list[int], least: int) -> None:
    column = array(kind, values)
    assert rows_from(column, least).tolist() == [
        row for row, value in enumerate(values) if value >= least
    ]
    assert rows_from(array("q", [-1, 2**63 - 1]), 1).tolist() == [1]


uint32_values = st.integers(0, 3) | st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(uint32_values, uint32_values), max_size=500))
def test_order_is_that_of_pairs(pairs: list[tuple[int, int]]) -> None:
    high, low = (array("I", column) for column in zip(*pairs, strict=True)) if pairs else ([], [])
    rows = order(array("I", high), array("I", low)).tolist()
    assert rows == sorted(range(len(pairs)), key=pairs.__getitem__)


@given(st.lists(trees(), max_size=4))
def test_trees_share_rows_as_often_as_each_has_them(some: list[Tree]) -> None:
    shared = shared_rows(2)
    ids: dict[tuple[int, ...], list[int]] = {}  # of a row, all that are equal
    rows = [(0, 0, 0, 0)]
    for parent, label, marked in some:
        wide = [-(each << 40) for each in marked]
        taken = dict.fromkeys(ids, 0)
        expected = [0]
        for each in zip(parent[1:], label[1:], wide[1:], marked[1:], strict=True):
            row = expected[each[0]], *each[1:]
            known, n = ids.setdefault(row, []), taken.get(row, 0)
            if n == len(known):
                known.append(len(rows))
                rows.append(row)
            taken[row] = n + 1
            expected.append(known[n])
        columns = uint32(label), array("q", wide), array("q", marked)
        assert share_rows(shared, uint32(parent), *columns).tolist() == expected
    assert list(zip(*shared_columns(shared), strict=True)) == rows


def test_more_shared_rows_than_the_table_begins_with() -> None:
    n = 100_000
    shared, parent, label = shared_rows(0), uint32([0, *range(n)]), uint32([0, *range(n)])
    for _ in range(2):
        assert share_rows(shared, parent, label).tolist() == list(range(n + 1))
    assert shared_columns(shared)[1].tolist() == label.tolist()
    alike = uint32([0] * (n + 1))
    for _ in range(2):  # n that are equal, of which the first is in the table
        assert share_rows(shared, alike, alike).tolist() == [0, 1, *range(n + 1, 2 * n)]


def test_what_shares_no_rows() -> None:
    shared, tree = shared_rows(1), uint32([0, 0])
    for columns in ((tree, tree, array("q", [0])), (uint32([0, 1]), tree, array("q", [0, 0]))):
        with pytest.raises(ValueError, match="no tree"):
            share_rows(shared, *columns)
    with pytest.raises(TypeError):
        share_rows(shared, tree, tree)
    with pytest.raises(ValueError, match="'I'"):
        share_rows(shared, tree, b"\0\0", array("q", [0, 0]))
    with pytest.raises(TypeError):
        shared_rows(5)
    with pytest.raises(ValueError, match="Capsule"):
        shared_columns(tree)


def test_addresses_move_with_the_module_around_them() -> None:
    begin, end, of = array("q", [10, 30, 30]), array("q", [20, 60, 40]), uint32([1, 2, 3])
    path, by = uint32([0, 1, 2, 1]), array("q", [0, 1000, 2000, -3000])

    def moved(*rows: tuple[int, int]) -> list[int]:
        address, usual = zip(*rows, strict=True)
        return relocate(array("q", address), uint32(usual), begin, end, of, path, by).tolist()

    assert moved((10, 1), (19, 3), (20, 1)) == [1010, 1019, 1020]
    assert moved((35, 1), (35, 2), (35, 3), (45, 2)) == [-2965, 2035, -2965, 2045]
    assert moved((35, 0), (-5, 0), (NO_NUMBER, 1)) == [35, -5, NO_NUMBER]
    with pytest.raises(ValueError, match="no tree"):
        moved((35, 4))
    with pytest.raises(OverflowError):
        moved((2**63 - 1, 1))


def test_places_have_other_stacks() -> None:
    about = STACK_MASK + 1
    assert restack(uint32([0, 2, 1 | about]), uint32([0, 7, 5])).tolist() == [0, 5, 7 | about]
    with pytest.raises(ValueError, match="no tree"):
        restack(uint32([3]), uint32([0, 7, 5]))


def test_shift_and_mark() -> None:
    assert shift(uint32([0, 5]), 7).tolist() == [7, 12]
    assert mark(uint32([3, 1, 3]), 5).tolist() == [0, 1, 0, 1, 0]


@pytest.mark.exhaustive
@given(trees(), st.data())
def test_exact_rows_are_sums_by_node(tree: Tree, data: st.DataObject) -> None:
    """Against the definition: a row's self time is its total less those of the nearest below."""
    parent, node, kept = tree
    n, figure = len(parent), st.integers(0, 3) | st.integers(0, 10**12)
    short = st.integers(0, 2**32 - 1)
    count = st.tuples(short, short, figure, figure, figure, figure)
    counts = [(0,) * 6] + [data.draw(count) for _ in range(1, n)]
    killed = data.draw(st.booleans())
    total, below = [0] * n, [0] * n
    sums: dict[int, list[int]] = {}
    counted = [bool(kept[row] and any(counts[row])) for row in range(n)]
    for row in reversed(range(1, n)):
        raised, seeded, calls, resumes, ticks, since = counts[row]
        if not counted[row]:
            continue
        ticks += max(0, 10**9 - since) if since else 0
        total[row] = max(ticks * 7 // 3, below[row] if killed else 0)
        nearest_above = next((at for at in above(parent, row) if counted[at]), 0)
        below[nearest_above] += total[row]
        figures = (calls, resumes, raised, seeded, total[row], total[row] - below[row])
        of_node = sums.setdefault(node[row], [0] * 6)
        of_node[:] = map(int.__add__, of_node, figures)
    packed = b"".join(EXACT_COUNT.pack(*each) for each in counts)
    columns = exact_rows(uint32(parent), uint32(node), bytes(kept), packed, 7, 3, 10**9, killed)
    assert list(zip(*columns, strict=True)) == [(at, *sums[at]) for at in sorted(sums)]


def test_counts_of_no_node_are_counted() -> None:
    rows = [EXACT_COUNT.pack(0, 0, calls, 0, 0, 0) for calls in (1, 2, 0, 4, 5)]
    into = bytearray(EXACT_COUNT.size * 3)
    assert exact_counts(into, 0, b"".join(rows[:4])) == 2
    assert [EXACT_COUNT.unpack_from(into, 40 * node)[2] for node in range(3)] == [0, 2, 0]


def test_figures_of_more_than_63_bits_are_refused() -> None:
    for count in ((0, 0, 2**63, 0, 0, 0), (0, 0, 1, 0, 2**63, 0)):
        packed = EXACT_COUNT.pack(*[0] * 6) + EXACT_COUNT.pack(*count)
        with pytest.raises(OverflowError):
            exact_rows(uint32([0, 0]), uint32([0, 1]), b"\1\1", packed, 1, 1, 0, False)


@pytest.mark.parametrize("kind", "BIq")
def test_take_has_the_kind_of_its_table(kind: str) -> None:
    taken = take(array(kind, [5, 6, 7]), uint32([2, 0, 2]))
    assert (taken.format, taken.tolist(), taken.readonly) == (kind, [7, 5, 7], True)


def test_add_up_by_group_and_only_where_asked() -> None:
    group, value = uint32([1, 0, 1, 3]), array("q", [5, -7, 2**40, 1])
    assert add_up(group, value, 5).tolist() == [-7, 5 + 2**40, 0, 1, 0]
    assert add_up(group, value, 5, bytes([1, 0, 0, 1])).tolist() == [0, 5, 0, 1, 0]
    assert add_up(group, value, 5, None) == add_up(group, value, 5)


def test_an_empty_column_is_one_too() -> None:
    none = uint32([])
    assert pairs(none, none)[0].tolist() == take(none, none).tolist() == []
    assert nearest(none, b"").tolist() == outermost(none, none, b"").tolist() == []
    assert add_up(none, array("q"), 2).tolist() == [0, 0]
    assert [each.tolist() for each in paths(none, none, b"")] == [[], [], []]


@pytest.mark.parametrize("parent", [[0, 1], [0, 2, 1], [0, 2**32 - 1]])
def test_what_is_no_tree_is_refused(parent: list[int]) -> None:
    n = len(parent)
    with pytest.raises(ValueError, match="no tree"):
        nearest(uint32(parent), bytes(n))
    with pytest.raises(ValueError, match="no tree"):
        outermost(uint32(parent), uint32([0] * n), bytes(n))
    with pytest.raises(ValueError, match="no tree"):
        inclusive(uint32(parent), array("q", [1] * n))
    with pytest.raises(ValueError, match="no tree"):
        paths(uint32(parent), uint32([0] * n), bytes(n))
    with pytest.raises(ValueError, match="no tree"):
        descend(uint32(parent), bytes(n), bytes(256))


def test_columns_that_do_not_fit_are_refused() -> None:
    two, three = uint32([0, 0]), uint32([0, 0, 0])
    for call in (
        lambda: pairs(two, three),
        lambda: nearest(two, bytes(3)),
        lambda: outermost(two, three, bytes(2)),
        lambda: inclusive(two, array("q", [1])),
        lambda: add_up(two, array("q", [1]), 1),
        lambda: add_up(uint32([1]), array("q", [1]), 1),
        lambda: take(two, uint32([2])),
        lambda: paths(two, two, bytes(3)),
        lambda: descend(two, bytes(2), bytes([1]) * 256),
        lambda: shift(uint32([1]), 2**32 - 1),
        lambda: mark(uint32([1]), 1),
        lambda: climb(two, array("q", [1, 2]), uint32([2]), 9),
        lambda: climb(uint32([0, 1]), array("q", [1, 2]), uint32([1]), 9),
        lambda: exact_rows(two, two, bytes(2), bytes(40), 1, 1, 0, False),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            call()
    with pytest.raises(ValueError, match="a column of 'I' is wanted"):
        pairs(array("H", [1]), two)
    with pytest.raises(OverflowError):
        add_up(two, array("q", [2**62, 2**62]), 1)
    with pytest.raises(OverflowError):
        inclusive(two, array("q", [2**62, 2**62]))


ENDLESS = "WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
MANY = 10**9  # steps of SQLite's machine


def test_columns_pass_through_sqlite(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    rows = [(1, 2**32 - 1, -(2**63)), (2, 0, 2**63 - 1)] * 1000
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (a, b, c)")
    a, b, c = zip(*rows, strict=True)
    columns = uint32(a), uint32(b), array("q", c)
    write_columns(open_database(path, True), "INSERT INTO t VALUES ", "(?, ?, ?)", *columns)
    read = open_database(f"file:{path}?mode=ro&immutable=1", False)
    columns = read_columns(read, "SELECT a, b, c FROM t", "IIq", MANY)
    assert list(zip(*columns, strict=True)) == rows
    assert read_columns(read, "SELECT a FROM t WHERE a > 2", "q", MANY)[0].tolist() == []
    with closing(sqlite3.connect(path)) as written:
        assert written.execute("SELECT * FROM t").fetchall() == rows


@pytest.mark.parametrize("value", ["-1", "4294967296", "NULL", "'1'", "1.0", "x'00'"])
def test_what_is_no_number_of_32_bits_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        read_columns(open_database(":memory:", False), f"SELECT {value}", "I", MANY)


def test_what_sqlite_cannot_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open"):
        open_database(str(tmp_path / "none"), False)
    database = open_database(":memory:", True)
    with pytest.raises(OSError, match="no such table"):
        read_columns(database, "SELECT * FROM t", "I", MANY)
    with pytest.raises(ValueError, match="do not fit"):
        read_columns(database, "SELECT 1, 2", "I", MANY)
    with pytest.raises(OSError, match="interrupted"):
        read_columns(database, f"{ENDLESS} SELECT x FROM r", "I", 10_000_000)
    assert read_columns(database, "SELECT 1", "I", MANY)[0].tolist() == [1]
    with pytest.raises(OSError, match="no such table"):
        write_columns(database, "INSERT INTO t VALUES ", "(?)", uint32([1]))
    with pytest.raises(ValueError, match="do not fit"):
        write_columns(database, "SELECT ?, ?", "", uint32([1]), uint32([1, 2]))


def test_call_rows() -> None:
    turns = (
        call_turn(30, 40, flags=8, serial=7)  # the first turn of several
        + call_turn(21, 25)
        + call_turn(20, 50, node=2, flags=11)
        + call_turn(0, 0, flags=16, serial=9, more=b"attributes")
        + call_turn(60, 70, flags=1, serial=7)  # the last
        + call_turn(10, 80, node=2)
    )
    nodes = array("I", [5, 6])
    *columns, n_whole, serials, places, lengths, n_damaged, rows, _ = call_rows(
        turns, nodes, 10, 1, 10, 0
    )
    assert list(zip(*columns, strict=True)) == [
        (1, 0, 6, 9, 0, 0, 700),  # row, serial, node, info, around, begin, end
        (2, 0, 6, 11, 1, 100, 400),
        (3, 0, 5, 9, 2, 110, 150),
        (4, 7, 5, 8, 2, 200, 300),
        (5, 7, 5, 1, 1, 500, 600),
    ]
    assert (n_whole, n_damaged, len(rows)) == (3, 0, 0)
    assert (list(serials), list(lengths)) == ([9], [10])
    assert turns[places[0] :].startswith(b"attributes")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 4)), max_size=60))
def test_call_rows_of_damage(rows: list[tuple[int, int, int]]) -> None:
    turns = b"".join(call_turn(*row) for row in rows)
    good = [(s, u, n) for s, u, n in rows if s <= u and 0 < n < 3]
    *columns, n_whole, _, _, _, n_damaged, _, _ = call_rows(turns, array("I", [5, 6]), 1, 1, 0, 0)
    assert (n_whole, n_damaged) == (len(good), len(rows) - len(good))
    assert list(columns[5]) == sorted(since for since, _, _ in good)
    *_, n_damaged, _, _ = call_rows(call_turn(1, 2)[:-1], array("I", [5]), 1, 1, 0, 0)
    assert n_damaged == 1
    *_, n_damaged, _, _ = call_rows(
        call_turn(1, 2) + call_turn(3, 4, more=b"x")[:-8], array("I", [5]), 1, 1, 0, 0
    )
    assert n_damaged == 1


def test_call_usage() -> None:
    def used(kinds: int) -> bytes:
        return struct.pack("<IIQQQQQQQIIII", kinds, 0, 100, 24, 20, 3, 50, 4096, 8192, 1, 2, 3, 4)

    turns = (
        call_turn(20, 30, flags=9 | 32, more=used(1 | 2 | 4))
        + call_turn(40, 50)
        + call_turn(10, 60, flags=9 | 32, more=used(1))
    )
    *_, rows, places = call_rows(turns, array("I", [5]), 1, 1, 0, 0)
    assert list(rows) == [1, 2]
    columns = call_usage(turns, places)
    assert list(zip(*columns, strict=True)) == [
        (100, 124, 24, 20, 3, -1, 1, 2, 3, 4, 4096, 8192),
        (100, 124, 24, 20, 3, 50, 1, 2, 3, 4, 4096, 8192),
    ]
    with pytest.raises(ValueError):
        call_usage(turns[:100], array("I", [90]))


@pytest.mark.exhaustive
@given(trees(), st.data())
def test_folded_counts_are_sums_of_what_hangs_on_a_row(tree: Tree, data: st.DataObject) -> None:
    """Against the definition: no count is lost, and of times the uppermost rows' are taken."""
    parent, labels, kept = tree
    number = [sorted({*labels}).index(label) for label in labels]
    n, figure = len(parent), st.integers(0, 3) | st.integers(0, 10**12)
    count = st.tuples(st.integers(0, 9), st.integers(0, 9), figure, figure, figure, figure)
    counts = [(0,) * 6] + [data.draw(count) for _ in range(1, n)]
    packed = b"".join(EXACT_COUNT.pack(*each) for each in counts)
    rows, place, over, *columns, called = fold_counts(
        uint32(parent), uint32(number), bytes(kept), packed, 10**9
    )
    stays = {0} | {at for row in range(n) if kept[row] for at in (row, *above_of(parent, row))}
    assert rows.tolist() == sorted(stays)
    hangs_on = [
        next(at for at in (row, *above_of(parent, row), 0) if at in stays) for row in range(n)
    ]
    assert place.tolist() == [rows.tolist().index(at) for at in hangs_on]
    sums: dict[int, list[int]] = {}
    for row in range(n):
        raised, seeded, calls, resumes, ticks, since = counts[row]
        if row in stays or not any(counts[row]):
            continue
        ran = ticks + (max(0, 10**9 - since) if since else 0)
        of_row = sums.setdefault(hangs_on[row], [0] * 5)
        of_row[:] = map(
            int.__add__, of_row, (raised, seeded, calls, resumes, ran * (parent[row] in stays))
        )
    made = list(zip(*columns, strict=True))
    assert made[: len(rows)] == [
        (raised | seeded << 32, *rest)
        for raised, seeded, *rest in (counts[row] for row in sorted(stays))
    ]
    assert dict(zip(over[len(rows) :], made[len(rows) :], strict=True)) == {
        sorted(stays).index(at): (raised | seeded << 32, *rest, 0)
        for at, (raised, seeded, *rest) in sums.items()
    }
    assert over[: len(rows)].tolist() == [
        sorted(stays).index(parent[row]) if row else 0 for row in sorted(stays)
    ]
    assert called.tolist() == [
        (CALLED_STAYS * any(counts[row][2] for row in stays if number[row] == each))
        | (
            CALLED_FOLDED
            * any(counts[r][2] for r in range(n) if r not in stays and number[r] == each)
        )
        for each in range(max(number) + 1)
    ]


def above_of(parent: list[int], row: int) -> list[int]:
    """The rows above and the root."""
    return [*above(parent, row), 0]


def test_rows_that_follow() -> None:
    assert rows_follow(uint32([0, 3]), array("Q", [5, 6]), 3) == 1
    assert rows_follow(uint32([0, 4]), array("Q", [5, 6]), 3) == 0
    assert rows_follow(uint32([0, 3]), array("Q", [5, 0]), 3) == 0
    assert rows_follow(uint32([]), array("Q"), 3) == 1


def test_sums_of_more_than_63_bits_are_refused() -> None:
    packed = EXACT_COUNT.pack(*[0] * 6) + 2 * EXACT_COUNT.pack(0, 0, 1, 0, 2**62, 0)
    with pytest.raises(OverflowError):
        fold_counts(uint32([0, 0, 0]), uint32([0, 1, 1]), bytes([0, 0, 0]), packed, 0)
