"""pyhybrid/tables: what follows from how a table is declared."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from example_profile import example, fake_symbols

from pyhybrid.finish.finish import finish
from pyhybrid.merge.merge import merge
from pyhybrid.tables import Frame, Process, Sampled, Thread, Timeline
from pyhybrid.tables.database import insert
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import TABLES, Row, Table, create_all
from pyhybrid.views.selection.sample_selection import Choice, choose, of_threads

ABSENT = (Process, Thread, Timeline)  # whose rows are the example's own
FIGURES = [row for row in TABLES.values() if not row.table.describes and row not in ABSENT]
FIGURES = [row for row in FIGURES if row.table.name not in ("meta", "process_meta")]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return finish(example().save(tmp_path / "x.part"), str(tmp_path / "x"), fake_symbols())


def filled(row: type[Row], thread: int, number: int) -> tuple[object, ...]:
    """A row of this thread: other references are to the first row, times are 10 s and on."""
    values: dict[str, object] = {}
    for column in row.table.columns:
        if column.kind == "Id":
            values[column.name] = number
        elif column.refers == "thread":
            values[column.name] = thread
        elif column.refers == "call":
            values[column.name] = 1000 + thread
        elif column.kind == "Time":
            values[column.name] = 10_000_000_000
        elif column.kind in ("str", "Json"):
            values[column.name] = f"text {number}" if column.kind == "str" else []
        elif column.kind in ("bytes", "NodeIds", "Places"):
            values[column.name] = bytes(8)
        else:
            values[column.name] = 1
    return tuple(values[name] for name in row.table.stored)


def fill(path: str, *rows: type[Row]) -> None:
    """Rows of the example's two threads in each of these tables, in the place of its own."""
    with closing(sqlite3.connect(path)) as database, database:
        for row in rows:
            database.execute(f"DELETE FROM {row.table.name}")
            insert(database, row, [filled(row, thread, 1000 + thread) for thread in (1, 2)])


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row.table.name)
def test_some_threads_rows_are_theirs(path: str, row: type[Row]) -> None:
    fill(path, *(each for each in TABLES.values() if each in FIGURES))
    with Profile.open(path) as profile:
        some = of_threads(profile, {2})
        table = row.table
        rows = [each for each in profile[row] if table.that_refer("thread")]
        (at,) = table.that_refer("thread") or (0,)
        assert len(profile[row]) == 2
        expected = [each for each in rows if each[at] == 2]
        if not table.that_refer("thread") and table.that_refer("call"):
            expected = [each for each in profile[row] if each[table.that_refer("call")[0]] == 1002]
        assert list(some[row]) == expected
        assert [thread.id for thread in some[Thread]] == [2]


def test_a_part_of_the_time_has_no_sums_of_threads(path: str) -> None:
    fill(path, *(row for row in FIGURES if row is not Sampled))
    with Profile.open(path) as profile:
        part, _ = choose(profile, Choice(begin_ns=0, end_ns=1 << 40))
        sums = [
            row.table.name
            for row in FIGURES
            if row.table.that_refer("thread") and not row.table.of_kind("Time") and part[row]
        ]
        assert sums == ["sampled", "call_time"]  # counted anew; of the calls that are all shown


@pytest.fixture
def toy() -> Iterator[type[Row]]:
    """A table that nobody thought of."""
    space = {
        "__module__": __name__,
        "__doc__": "Toys of threads.",
        "__annotations__": {
            "id": "Id",
            "thread": "ThreadId",
            "frame": "FrameId | None",
            "node": "NodeId",
            "at_ns": "Time",
            "names": "Json[list[str]]",
        },
    }
    made: type[Row] = type(Row)("Toy", (Row,), space, of_process=True, ordered_by="at_ns DESC")
    yield made
    del TABLES["toy"]


def test_a_new_table_is_written_read_merged_chosen_and_shown(
    toy: type[Row], tmp_path: Path
) -> None:
    assert "CREATE TABLE toy (\n    id INTEGER PRIMARY KEY, process INTEGER" in create_all()
    paths = [str(tmp_path / name) for name in "ab"]
    for at, path in enumerate(paths):
        finish(example().save(tmp_path / "x.part"), path, fake_symbols())
        paths[at] += ".pyhybrid"
        with closing(sqlite3.connect(paths[at])) as database, database:
            rows = [(1, 1, None, 1, 5, ["a"]), (2, 2, 3, 4, 6, [])]
            insert(database, toy, rows)
            known = "INSERT OR REPLACE INTO meta VALUES ('boot_id', ?), ('start_unix_ns', ?)"
            database.execute(known, (f'"{at}"', str(10**9 * at)))
    both = str(tmp_path / "both")
    merge(paths, both)
    with Profile.open(paths[0]) as profile, Profile.open(both) as merged:
        assert profile[toy] == [toy(2, 2, 3, 4, 6, []), toy(1, 1, None, 1, 5, ["a"])]
        assert list(of_threads(profile, {1})[toy]) == [toy(1, 1, None, 1, 5, ["a"])]
        known = {row[0]: row[1:] for row in merged[toy]}
        assert known.keys() == {1, 2, 3, 4}
        assert known[3] == (3, None, 1, 5 + 10**9, ["a"])
        assert known[4] == (4, 3, 4, 6 + 10**9, [])
        assert merged.query("SELECT id, process FROM toy ORDER BY id") == [
            *((1, 1), (2, 1), (3, 2), (4, 2)),
        ]


def test_a_file_without_the_table_has_no_rows(path: str, toy: type[Row]) -> None:
    with Profile.open(path) as profile:
        assert profile[toy] == []


def test_a_row_is_a_tuple_of_its_fields() -> None:
    row = Frame(1, "python", "f", "/f.py", 3, None, None, None, None, source="code")
    assert (row.name, row[4], row.python_name, row.inlined) == ("f", 3, None, False)
    assert row._replace(line=4)[4] == 4
    assert "name='f', file='/f.py', line=3" in repr(row)
    for wrong in ({"sources": "x"}, {}):
        with pytest.raises(TypeError, match="Frame has the fields id, kind, name"):
            Frame(1, "python", **wrong)  # type: ignore[call-arg,arg-type]
    with pytest.raises(TypeError, match="has no lines"):
        row._replace(lines=4)


def test_a_profile_never_changes(path: str) -> None:
    with Profile.open(path) as profile:
        with pytest.raises(AttributeError, match="cannot be changed"):
            profile.meta = {}  # type: ignore[misc]
        other = profile.replaced(meta={"period_ns": 7})
        assert (other.period_ns, profile.period_ns) == (7, 1_000_000)
        assert other.stacks is profile.stacks
        assert isinstance(Frame.table, Table)
