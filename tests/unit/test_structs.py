"""Records that may be changed: their fields, defaults and equality."""

from __future__ import annotations

import pickle

import pytest

from pyhybrid.base.structs import Struct, made
from pyhybrid.report.table import plain


class Pair(Struct):
    """Has a field of each kind."""

    name: str
    self: int = 0
    rows: list[int] = made(list)


class Longer(Pair):
    """Has one more."""

    more: str = "more"


def test_fields_are_in_order_or_named() -> None:
    assert Pair("a", 1, [2]) == Pair("a", rows=[2], self=1)
    assert Longer("a", 1, [2], "b").more == "b"
    assert Longer.__match_args__ == ("name", "self", "rows", "more")
    assert not hasattr(Pair("a"), "__dict__")


def test_what_is_made_is_made_for_each() -> None:
    one, other = Pair("a"), Pair("a")
    one.rows.append(1)
    assert (one.rows, other.rows) == ([1], [])


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), (("a", 1, [], 2), {}), (("a",), {"other": 1})]
)
def test_other_fields_are_refused(values: tuple[object, ...], named: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Pair(*values, **named)  # type: ignore[arg-type]


def test_a_record_changes_and_is_copied() -> None:
    one = Pair("a")
    one.self += 1
    assert (one.replaced(self=2).self, one.self) == (2, 1)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Longer("a", 1)
    assert repr(one) == "Pair(name='a', self=1, rows=[])"
    assert plain(one) == {"name": "a", "self": 1, "rows": []}
