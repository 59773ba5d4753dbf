"""Opening profiles: what is read, and one clear line for everything that is no profile."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from example_profile import PATHS, PERIOD_NS, PID, SAMPLES, TORCH, WEIGHT, example, fake_symbols
from spool_writer import SpoolWriter, native

import pyhybrid
from pyhybrid.assemble import open_profile
from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters import EXPORTERS
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.perf.bundle import Bundle
from pyhybrid.finish.finish import finish
from pyhybrid.report.summary import summarize
from pyhybrid.tables import stack_of
from pyhybrid.tables.profile import Profile

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(params=["finished", "spool"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Profile]:
    """The example, as a finished file and as a spool."""
    path = example().save(tmp_path / "out.pyhybrid.part")
    if request.param == "finished":
        path = finish(path, str(tmp_path / "out"), fake_symbols())
    with open_profile(path, fake_symbols()) as opened:
        yield opened


TABLES = (
    *("process", "threads", "losses", "modules", "frames", "nodes", "stacks", "sampled", "exact"),
    *("calls", "usage", "turns", "call_times", "lines", "c_names", "meta"),
)


def test_a_file_of_an_older_schema_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "old.pyhybrid"
    database(path, (GOLDEN / "schema-4.sql").read_text().replace("5003288", str(PID)))
    spool = example().save(tmp_path / "x.part")
    with Profile.open(str(path)) as old, open_profile(spool, fake_symbols()) as new:
        for key in ("unsampled_calls", "unaccounted_ns"):  # which it does not know
            old.meta[key] = new.meta[key]
        for table in TABLES:
            assert getattr(old, table) == getattr(new, table), table
        assert list(old.timeline()) == list(new.timeline())
        assert (old.codes[14].path, old.codes[14].arguments) == (
            "__main__.main.<locals>.step",
            ["x"],
        )
        export_to(Folded(), old, str(tmp_path / "out.folded"))
    assert (tmp_path / "out.folded").read_text() == (GOLDEN / "example.folded").read_text()


@pytest.mark.parametrize("name", ["out", "a?b#c%20d", "ö\\n", "\udcff"])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    spool = example().save(tmp_path / "x.part")
    path = finish(spool, str(tmp_path / name), fake_symbols())
    for each in (path, "/" + path, "//" + path, os.path.relpath(path)):
        with open_profile(each) as opened:
            assert (opened.process.pid, len(opened.nodes.parent) > 1) == (PID, True)


def test_a_file_that_is_replaced_is_still_the_one_that_was_opened(tmp_path: Path) -> None:
    path = finish(example().save(tmp_path / "x.part"), str(tmp_path / "x"), fake_symbols())
    with open_profile(path) as first, open_profile(path) as second:
        os.replace(finish(str(tmp_path / "x.part"), str(tmp_path / "y")), path)
        Path(path).write_bytes(b"")
        assert len(first.nodes.parent) == len(second.nodes.parent) > 1
        assert first.query("SELECT count(*) + 1 FROM node") == [(len(first.nodes.parent),)]


def test_reads_all_of_it(profile: Profile) -> None:
    assert profile.meta["hz"] == 1000
    assert profile.process.argv == ["workload.py", "--steps", "3"]
    assert (profile.process.pid, profile.process.end_ns) == (PID, 3_000_000_000)
    main, loader = profile.threads.values()
    assert (main.name, main.comm, main.tid, main.signals) == ("MainThread", "python", PID, 13)
    assert (loader.missed_weight_ns, loader.cpu_ns) == (PERIOD_NS, 2_000_000)
    assert (loader.first_ns, loader.last_ns) == (2_000_500_000, 2_001_500_000)
    assert [(each.reason, each.samples) for each in profile.losses] == [
        ("ring_full", 2),
        ("too_slow", 1),
    ]
    assert profile.modules[TORCH].path == PATHS[TORCH]
    assert profile.modules[TORCH].segments == [(0x7F1000000000, 0x100000, 0, 5)]
    assert {frame.kind for frame in profile.frames.values()} == {"python", "native", "pseudo"}
    assert sum(each.weight_ns for each in profile.sampled) == WEIGHT * PERIOD_NS


def test_the_timeline_is_every_sample(profile: Profile) -> None:
    chunks = list(profile.timeline())
    assert [chunk.thread for chunk in chunks] == [1, 2]
    assert sum(len(chunk.place) for chunk in chunks) == SAMPLES
    assert chunks[0].weights == {1: 4}
    counted: dict[tuple[int, int], int] = {}
    for chunk in chunks:
        for stack in map(stack_of, chunk.place):
            counted[chunk.thread, stack] = counted.get((chunk.thread, stack), 0) + 1
    assert counted == {(s.thread, s.stack): s.samples for s in profile.sampled}


def test_stacks_lie_above_their_nodes(profile: Profile) -> None:
    stacks, nodes = profile.stacks, profile.nodes
    for stack in range(1, len(stacks.node)):
        assert stacks.parent[stack] < stack
        if stacks.node[stack] != stacks.node[stacks.parent[stack]]:  # but for unneeded phantoms
            assert nodes.parent[stacks.node[stack]] == stacks.node[stacks.parent[stack]]


def test_a_profile_cannot_be_changed(tmp_path: Path) -> None:
    spool = example().save(tmp_path / "x.part")
    path = finish(spool, str(tmp_path / "out"), fake_symbols())
    with open_profile(path) as profile, pytest.raises(PyhybridError):
        profile.query("DELETE FROM sampled")


def test_odd_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c%41 d"
    folder.mkdir()
    path = finish(example().save(folder / "x.part"), str(folder / "out"), fake_symbols())
    with open_profile(path) as profile:
        assert profile.meta["pid"] == PID


def database(path: Path, *statements: str) -> None:
    """An SQLite database of these statements."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.executescript(statement)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "cannot read .*: No such file or directory"),
        ("folder", "cannot read .*: Is a directory"),
        ("fifo", "cannot read .*: it is no regular file"),
        ("empty", "not a pyhybrid profile"),
        ("text", "not a pyhybrid profile"),
        ("other", "an SQLite database, but not a pyhybrid profile"),
        ("newer", "schema version 99, written by a newer pyhybrid"),
        ("header", "damaged"),
        ("spool", "newer pyhybrid"),
    ],
)
def test_what_is_no_profile(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "out.pyhybrid"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("main;f 3\n")
    elif kind == "other":
        database(path, "CREATE TABLE meta (key, value)")
    elif kind == "newer":
        finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
        database(path, "PRAGMA user_version = 99")
    elif kind == "header":
        path.write_bytes(b"SQLite format 3\0" + b"\x55" * 200)
    elif kind == "spool":
        path.write_bytes(b"PYHSPOOL\xff\0\0\0\1\0\0\0")
    with pytest.raises(PyhybridError, match=message) as caught:
        open_profile(str(path))
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, UsageError)


def read_everything(path: Path, out: Path) -> str:
    """Open, summarize, export; the error's text where there is one."""
    try:
        with open_profile(str(path), fake_symbols()) as profile:
            summarize(profile, [], [])
            Bundle(profile)
            for name, exporter in EXPORTERS.items():
                if name != "lttng" and (
                    profile.exact or name not in ("pstats", "callgrind", "pfw")
                ):
                    export_to(exporter(), profile, str(out / name))
    except PyhybridError as error:
        return str(error)
    return ""


def test_a_database_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    whole = path.read_bytes()
    assert read_everything(path, tmp_path) == ""
    for size in range(0, len(whole), 997):
        path.write_bytes(whole[:size])
        assert "\n" not in read_everything(path, tmp_path)
        if size > 100:
            assert "damaged" in read_everything(path, tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE frame SET name = CAST(x'ff' AS TEXT)",
        "UPDATE segment SET module = 99",
        "INSERT INTO event_log VALUES (1, 1, 0, 1, 1, 0, x'0000000000000001')",
        "INSERT INTO event_log VALUES (1, 1, 0, 1, 1, 0, 'text')",
        "UPDATE timeline SET place = x'010203'",
        "UPDATE timeline SET cpu = x'00000000010000000000009001000000'",  # of sample 0x90000000
    ],
)
def test_damage_within_tables_is_one_line(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    database(path, statement)
    with open_profile(str(path)) as profile, pytest.raises(PyhybridError, match="damaged: "):
        _ = profile.frames, profile.modules, list(profile.events()), list(profile.timeline())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE timeline SET place = x'010203'",
        "UPDATE timeline SET thread = 99",
        "UPDATE meta SET value = '\"often\"' WHERE key = 'period_ns'",
        "INSERT OR REPLACE INTO meta VALUES ('kernel_build_id', '\"xyz\"')",
        "UPDATE module SET build_id = 'xyz'",
    ],
)
def test_export_says_what_is_damaged_in_one_line(
    tmp_path: Path, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    database(path, statement)
    with pytest.raises(SystemExit) as ended:
        main(["export", "-f", "perf", str(path)])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(f"pyhybrid: {path}: damaged: ")
    assert said.count("\n") == 1
    assert not (tmp_path / "perf.data").exists()


@pytest.mark.parametrize(
    "view",
    ["--no-inlines", "tree --no-inlines", "quality", "lines --no-inlines", "--json --no-inlines"],
)
def test_report_says_what_is_damaged_in_one_line(
    tmp_path: Path, view: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    database(path, "UPDATE sampled SET stack = stack + (1 << 40)")
    with pytest.raises(SystemExit) as ended:
        main(["report", *view.split(), str(path)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"pyhybrid: {path}: damaged: ")
    assert said.err.count("\n") == 1
    assert not said.out


ENDLESS = "WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


@pytest.mark.parametrize("table", ["node", "meta", "exact", "timeline", "thread"])
@pytest.mark.parametrize(
    "kind", ["a view", "a view that is called a table", "virtual", "generated"]
)
def test_a_table_without_an_end(tmp_path: Path, table: str, kind: str) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        db.execute(f"DROP TABLE {table}")
        if kind == "virtual":
            db.execute(f"CREATE VIRTUAL TABLE {table} USING fts5 ({','.join(columns)})")
        elif kind == "generated":
            more = [f"{each} AS (hex(zeroblob(1 << 20)))" for each in columns[1:]]
            db.execute(f"CREATE TABLE {table} ({','.join([columns[0], *more])})")
        else:
            all_x = ",".join(f"x AS {column}" for column in columns)
            db.execute(f"CREATE VIEW {table} AS {ENDLESS} SELECT {all_x} FROM r")
        if kind == "a view that is called a table":
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_schema SET type = 'table' WHERE name = ?", [table])
    with pytest.raises(PyhybridError, match=f"damaged: .*{table}") as error:
        open_profile(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.exhaustive
def test_a_query_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a view that people use: tables alone are looked at."""
    monkeypatch.setattr("pyhybrid.tables.database.LEAST_STEPS", 10_000_000)
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    database(path, "DROP VIEW node_self", f"CREATE VIEW node_self AS {ENDLESS} SELECT x FROM r")
    with (
        open_profile(str(path)) as profile,
        pytest.raises(PyhybridError, match="more than a file of its size can hold"),
    ):
        profile.query("SELECT * FROM node_self")


def test_other_tables_are_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    database(path, "CREATE TABLE mine (a)", "CREATE VIEW my_view AS SELECT * FROM node")
    assert read_everything(path, tmp_path) == ""


def test_a_text_that_is_none_in_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE loss", b"CREATE TABLE \xffoss"))
    with pytest.raises(PyhybridError, match="damaged: ") as error:
        open_profile(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.exhaustive
def test_a_database_with_holes(tmp_path: Path) -> None:
    """Pages of zeros or noise in the middle: an error in one line, or nothing that matters."""
    path = tmp_path / "out.pyhybrid"
    finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    whole = path.read_bytes()
    for at in range(0, len(whole), 2048):
        for filling in (bytes(2048), bytes(range(256)) * 8):
            path.write_bytes(whole[:at] + filling + whole[at + 2048 :])
            assert "\n" not in read_everything(path, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [149, pytest.param(13, marks=pytest.mark.further)])
def test_a_spool_cut_anywhere(tmp_path: Path, step: int) -> None:
    whole = bytes(example().data)
    path = tmp_path / "x.part"
    for size in range(0, len(whole), step):
        path.write_bytes(whole[:size])
        assert "\n" not in read_everything(path, tmp_path)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["m.f"], "m.f"),
        (["m.long_name", "m.f"], "m.f or m.long_name"),
        ([f"m.f{i}" for i in range(8)], "m.f0 or 7 others"),
        ([f"m.f{i}" for i in range(9)], None),  # code that many share: a dispatcher
    ],
)
def test_names_of_the_method_tables(tmp_path: Path, names: list[str], shown: str | None) -> None:
    """In the place of no symbol or an object's; beside one; not for another function."""
    spool = SpoolWriter()
    spool.meta()
    bare, named, other, slot = (native(TORCH, at) for at in (0x910, 0x1000, 0x2000, 0x5000))
    spool.module(TORCH, PATHS[TORCH], 0x7F0000000000)
    spool.functions({bare + 8: bare, named + 8: named, other + 8: other})
    spool.stack(bare + 8, named + 8, other + 8, slot + 8)
    spool.stacks()
    for name in names:
        for function in (bare, named, slot):
            spool.function_name(function, name)
    spool.function_name(other + 4, "m.other")  # begins elsewhere
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        frames = {frame.address: frame for frame in profile.frames.values()}
    of_frame = {at: (f.name, f.source, f.symbol, f.python_name) for at, f in frames.items()}
    by_python = (shown, "method table", None, shown)
    unnamed = ("libtorch_cpu.so!+0x910", "fde", None, None)
    assert of_frame[0x910] == (by_python if shown else unnamed)
    by_vtable = ("A::{virtual#3}", "exported data", "_ZTV1A[3]", None)
    assert of_frame[0x5000] == (by_python if shown else by_vtable)
    assert of_frame[0x1000][1::2] == ("symtab", shown)
    assert of_frame[0x2000][1::2] == ("debugdata", None)


def test_what_programs_read(tmp_path: Path) -> None:
    """pyhybrid.load: reports and exports of a profile, as the command line makes them."""
    path = finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    with pyhybrid.load(Path(path)) as profile:
        assert isinstance(profile, pyhybrid.Profile)
        assert "samples" in profile.report()
        assert "step (workload.py:10)" in profile.tree()
        first, *_ = functions = profile.functions()
        assert (first.calls, first.self_ns) == (None, max(f.self_ns for f in functions))
        assert sum(f.samples for f in functions) == SAMPLES - 1  # which is all plumbing
        for method in (profile.steps, profile.model):
            with pytest.raises(PyhybridError, match="no "):
                method()
        target = tmp_path / "a.folded"
        assert profile.export("folded", target) == str(target)
        assert target.read_text() == (GOLDEN / "example.folded").read_text()
        assert "iframe" in profile._repr_html_() or "href" in profile._repr_html_()
        with pytest.raises(UsageError, match="no format 'nothing'; there are: "):
            profile.export("nothing", target)
        part = profile.replaced(meta={**profile.meta, "notes": []})
        assert isinstance(part, pyhybrid.Profile)
