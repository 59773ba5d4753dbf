"""pyhybrid._profile: passes over columns, each against the same thing said in a line of Python."""

from __future__ import annotations

from array import array
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhybrid._profile import add_up, descend, inclusive, nearest, outermost, pairs, paths, take

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


def uint32(values: list[int]) -> array[int]:
    return array("I", values)


@given(trees())
def test_nearest_is_the_row_itself_or_the_first_marked_one_above(tree: Tree) -> None:
    parent, _, marked = tree
    expected = [
        next((at for at in (row, *above(parent, row)) if marked[at]), 0)
        for row in range(len(parent))
    ]
    assert nearest(uint32(parent), bytes(marked)).tolist() == expected


@given(trees())
def test_outermost_is_what_has_no_marked_row_of_its_label_above(tree: Tree) -> None:
    parent, label, marked = tree
    expected = [
        all(not marked[at] or label[at] != label[row] for at in above(parent, row))
        for row in range(len(parent))
    ]
    found = outermost(uint32(parent), uint32(label), bytes(marked)).tolist()
    assert found[1:] == expected[1:]


@given(trees())
def test_inclusive_adds_what_is_below(tree: Tree) -> None:
    parent, value, _ = tree
    expected = list(value)
    for row in range(1, len(parent)):
        for at in {*above(parent, row), 0}:
            expected[at] += value[row]
    assert inclusive(uint32(parent), array("q", value)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2**32 - 1)), max_size=3000))
def test_pairs_are_numbered_in_order_of_their_first_rows(rows: list[tuple[int, int]]) -> None:
    numbers = defaultdict[tuple[int, int], int](lambda: len(numbers))
    expected = [numbers[row] for row in rows]
    group, first = pairs(uint32([a for a, _ in rows]), uint32([b for _, b in rows]))
    assert group.tolist() == expected
    assert [rows[at] for at in first] == list(numbers)


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
    ):
        with pytest.raises(ValueError, match="do not fit"):
            call()
    with pytest.raises(ValueError, match="a column of 'I' is wanted"):
        pairs(array("H", [1]), two)
    with pytest.raises(OverflowError):
        add_up(two, array("q", [2**62, 2**62]), 1)
    with pytest.raises(OverflowError):
        inclusive(two, array("q", [2**62, 2**62]))
