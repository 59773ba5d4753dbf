"""From the spool to the database: frames are one by identity, phantoms go, every sum holds."""

import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example_profile import PERIOD_NS, SAMPLES, WEIGHT, example, fake_symbols
from large_inputs import many_stacks, many_threads
from spool_writer import SpoolWriter, native, pseudo, python
from steps import steps

from pyhybrid.assemble import open_profile
from pyhybrid.assemble.assemble import Assembled, assemble
from pyhybrid.capture import finisher
from pyhybrid.errors import PyhybridError
from pyhybrid.finish.finish import finish, main, make
from pyhybrid.finish.snapshot import make_snapshot

Finished = Callable[[SpoolWriter], sqlite3.Connection]


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[Finished]:
    """Turns spools into databases."""
    databases = []

    def database_of(writer: SpoolWriter) -> sqlite3.Connection:
        databases.append(sqlite3.connect(":memory:", isolation_level=None))
        assemble(databases[-1], writer.save(tmp_path / "x.part"), fake_symbols())
        return databases[-1]

    yield database_of
    for database in databases:
        database.close()


def test_sums(finished: Finished) -> None:
    db = finished(example())
    assert db.execute("SELECT sum(samples), sum(weight_ns) FROM sampled").fetchone() == (
        SAMPLES,
        WEIGHT * PERIOD_NS,
    )
    threads = "SELECT sum(signals), sum(recorded), sum(recorded_weight_ns) FROM thread"
    assert db.execute(threads).fetchone() == (SAMPLES + 3, SAMPLES, WEIGHT * PERIOD_NS)
    assert db.execute("SELECT reason, samples FROM loss ORDER BY 1").fetchall() == [
        ("ring_full", 2),
        ("too_slow", 1),
    ]
    assert db.execute("SELECT n FROM timeline ORDER BY thread").fetchall() == [(10,), (2,)]
    assert db.execute("SELECT end_ns, n_forked, n_spawned FROM process").fetchone() == (
        3_000_000_000,
        2,
        1,
    )


def test_parents_come_first_and_exist(finished: Finished) -> None:
    db = finished(example())
    for table in ("node", "stack"):
        assert db.execute(f"SELECT count(*) FROM {table} WHERE parent >= id").fetchone() == (0,)
        sql = (
            f"SELECT count(*) FROM {table} WHERE parent NOT IN (SELECT id FROM {table}) AND parent"
        )
        assert db.execute(sql).fetchone() == (0,)
    sql = (
        "SELECT count(*) FROM stack c JOIN stack p ON p.id = c.parent JOIN node n ON n.id = c.node "
    )
    assert db.execute(sql + "WHERE n.parent != p.node AND n.id != p.node").fetchone() == (0,)


def test_native_names_by_what_is_known(finished: Finished) -> None:
    db = finished(example())
    rows = db.execute("SELECT name, source, address FROM frame WHERE kind = 'native'").fetchall()
    found = {name: (source, address) for name, source, address in rows}
    assert found["at::_ops::add::call(at::Tensor const&, c10::Scalar const&)"] == ("symtab", 0x1000)
    assert found["at::native::add_stub; odd\nname"] == ("debugdata", 0x2000)
    assert found["libtorch_cpu.so!+0x3000"] == ("fde", 0x3000)
    assert found["libtorch_cpu.so!?"] == ("none", None)
    assert found["[jit]"] == ("none", None)
    assert found["[vdso]!+0x800"] == ("fde", 0x800)
    assert len(rows) == len(found)


def test_addresses_and_lines(finished: Finished) -> None:
    db = finished(example())
    sql = """SELECT DISTINCT stack.address, offset, stack.line FROM stack
             JOIN node ON node.id = node JOIN frame ON frame.id = frame WHERE name = ?"""
    stub = db.execute(sql, ["at::native::add_stub; odd\nname"]).fetchall()
    assert stub == [(0x7F1000002010, None, None), (0x7F1000002018, None, None)]
    assert db.execute(sql, ["[jit]"]).fetchall() == [(0x7E0000000040, None, None)]
    assert db.execute(sql, ["<module>"]).fetchall() == [(None, 9, 3)]


def test_one_library_loaded_twice_and_equal_code_are_one(finished: Finished) -> None:
    writer = SpoolWriter()
    writer.meta()
    for number in (1, 2):
        writer.module(number, "/lib/a.so", number << 20)
        writer.code(number, "f", "a.py", 3)
    writer.thread(1, 1, "python")
    stacks = [writer.stack(python(number, 1), native(number, 0x20)) for number in (1, 2)]
    writer.functions({native(number, 0x20): native(number, 0x10) for number in (1, 2)})
    writer.stacks()
    writer.samples(1, stacks)
    db = finished(writer)
    assert db.execute("SELECT count(*) FROM frame").fetchone() == (2,)
    assert db.execute("SELECT count(*) FROM node").fetchone() == (2,)
    assert db.execute("SELECT count(*) FROM stack").fetchone() == (4,)
    (notes,) = db.execute("SELECT value FROM meta WHERE key = 'notes'").fetchone()
    assert json.loads(notes) == ["/lib/a.so: no names: No such file or directory"]


def paths(db: sqlite3.Connection) -> dict[str, int]:
    """Samples by call path, through nodes and, the same, through stacks."""
    names = dict(db.execute("SELECT id, name FROM frame"))
    nodes = {
        i: (parent, names[f]) for i, parent, f in db.execute("SELECT id,parent,frame FROM node")
    }
    stacks = {i: (p, nodes[n][1]) for i, p, n in db.execute("SELECT id, parent, node FROM stack")}

    def path(table: dict[int, tuple[int, str]], at: int) -> str:
        names = []
        while at:
            at, name = table[at]
            names.append(name)
        return ";".join(names[::-1])

    found: dict[str, int] = {}
    for stack, node, n in db.execute(
        "SELECT stack, node, samples FROM sampled JOIN stack ON stack.id = stack"
    ):
        assert path(nodes, node) == path(stacks, stack)
        found[path(nodes, node)] = found.get(path(nodes, node), 0) + n
    return found


def test_phantoms(finished: Finished) -> None:
    """The shim is no caller of Python frames; as a leaf or as a caller of native code it stays."""
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "main", "a.py", 1)
    writer.code(2, "__init__", "shim", 0, first_traceable=4)
    writer.code(3, "A.__init__", "a.py", 5)
    writer.module(1, "[vdso]", 0)
    writer.functions({native(1, 9): native(1, 8)})
    writer.thread(1, 1, "python")
    main, shim, init = python(1, 5), python(2, 1), python(3, 2)
    stacks = [
        writer.stack(main, shim, init),
        writer.stack(main, shim, shim, init),
        writer.stack(main, shim),
        writer.stack(main, shim, native(1, 9)),
        writer.stack(main, python(2, 4), init),
        writer.stack(main, init),
    ]
    writer.stacks()
    writer.samples(1, stacks)
    assert paths(finished(writer)) == {
        "main;A.__init__": 3,
        "main;__init__": 1,
        "main;__init__;[vdso]!+0x8": 1,
        "main;__init__;A.__init__": 1,
    }


def test_unneeded_phantoms_leave_no_node(finished: Finished) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "main", "a.py", 1)
    writer.code(2, "__init__", "shim", 0, first_traceable=4)
    writer.thread(1, 1, "python")
    stack = writer.stack(python(1, 5), python(2, 1), python(1, 5))
    writer.stacks()
    writer.samples(1, [stack])
    db = finished(writer)
    assert db.execute("SELECT count(*) FROM node").fetchone() == (2,)
    assert paths(db) == {"main;main": 1}


def test_pseudo_frames_and_unknown_codes(finished: Finished) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python")
    stacks = [writer.stack(pseudo(n)) for n in (*range(1, 13), 9 | 1 << 8)] + [
        writer.stack(python(77, 1)),
        0,
    ]
    writer.stacks()
    writer.samples(1, stacks)
    assert paths(finished(writer)) == {
        "[truncated]": 2,
        "[unwind gap]": 1,
        "[bridged]": 1,
        "[unknown python]": 2,
        "[other interpreter]": 1,
        "[tree full]": 1,
        "[pyhybrid]": 1,
        "[kernel]": 1,
        "[signals blocked]": 1,
        "[signals blocked] thread python": 1,
        "[functions of imports]": 1,
        "[task]": 1,
        "[pseudo 12]": 1,
    }


def test_killed_process(finished: Finished) -> None:
    """Without END the samples in the file count, not the last snapshot of the counters."""
    writer = example(end=False)
    writer.samples(2, [1, 1, 1])
    db = finished(writer)
    assert db.execute("SELECT end_ns, n_forked FROM process").fetchone() == (None, None)
    assert db.execute("SELECT signals, recorded FROM thread WHERE id = 2").fetchone() == (5, 5)
    assert db.execute("SELECT value FROM meta WHERE key = 'complete'").fetchone() == ("false",)


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [37, pytest.param(3, marks=pytest.mark.further)])
def test_cut_anywhere(tmp_path: Path, step: int) -> None:
    writer = example()
    path = tmp_path / "x.part"
    for size in range(writer.boundaries[1], len(writer.data), step):
        path.write_bytes(writer.data[:size])
        with sqlite3.connect(":memory:", isolation_level=None) as db:
            assemble(db, str(path), fake_symbols())
            by_thread = db.execute("SELECT total(recorded) FROM thread").fetchone()
            assert by_thread == db.execute("SELECT total(samples) FROM sampled").fetchone()
        db.close()


def test_odd_names_can_be_stored(finished: Finished) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f\udc80", "/tmp/\udcff\u00e9.py", 1)
    writer.thread(1, 1, "python", "\u4e2d")
    row = writer.stack(python(1, 1))
    writer.stacks()
    writer.samples(1, [row])
    db = finished(writer)
    assert db.execute("SELECT name, file FROM frame").fetchone() == (
        "f\\udc80",
        "/tmp/\\udcff\u00e9.py",
    )


def test_a_sample_without_its_stack(finished: Finished) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python")
    row = writer.stack(pseudo(1))
    writer.stacks()
    writer.samples(1, [row + 1])
    writer.samples(1, [row, row])
    database = finished(writer)
    (notes,) = database.execute("SELECT value FROM meta WHERE key = 'notes'").fetchone()
    assert json.loads(notes)[0].startswith("1 damaged records of ")
    assert database.execute("SELECT samples FROM sampled").fetchall() == [(2,)]


def test_numbers_that_no_table_can_hold(finished: Finished) -> None:
    """They cost the figure alone."""
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python", first_ns=(1 << 64) - 1)
    row = writer.stack(pseudo(1))
    writer.stacks()
    writer.samples(1, [row, row])
    database = finished(writer)
    (notes,) = database.execute("SELECT value FROM meta WHERE key = 'notes'").fetchone()
    assert json.loads(notes)[0].startswith("1 damaged records of ")
    assert database.execute("SELECT samples FROM sampled").fetchall() == [(2,)]
    assert database.execute("SELECT name, start_ns FROM thread").fetchall() == [("python", 0)]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    prefix = str(tmp_path / "out")
    path = finish(example().save(tmp_path / "out.pyhybrid.part"), prefix, fake_symbols())
    assert path == prefix + ".pyhybrid"
    good = Path(path).read_bytes()
    (tmp_path / "bad.part").write_bytes(b"no spool")
    with pytest.raises(PyhybridError):
        finish(str(tmp_path / "bad.part"), prefix, fake_symbols())
    assert Path(path).read_bytes() == good
    finish(str(tmp_path / "out.pyhybrid.part"), prefix, fake_symbols())
    assert Path(path).read_bytes() == good
    assert sorted(os.listdir(tmp_path)) == ["bad.part", "out.pyhybrid", "out.pyhybrid.part"]


def test_unwritable_place_is_one_line(tmp_path: Path) -> None:
    spool = example().save(tmp_path / "x.part")
    with pytest.raises(PyhybridError, match="cannot write"):
        finish(spool, str(tmp_path / "no" / "such" / "folder"), fake_symbols())


def test_views(finished: Finished) -> None:
    db = finished(example())
    hot = {row[0]: row[4:] for row in db.execute("SELECT * FROM hot_function")}
    assert hot["at::native::add_stub; odd\nname"] == (2, 5 * PERIOD_NS, 5 * PERIOD_NS)
    assert hot["Linear.forward"][1:] == (2 * PERIOD_NS, 10 * PERIOD_NS)
    path = db.execute("SELECT weight_ns, text FROM hot_path").fetchone()
    assert path[0] == 5 * PERIOD_NS
    assert path[1].startswith("_start > Py_BytesMain > ")
    assert path[1].endswith("> at::native::add_stub; odd\nname")


@pytest.mark.exhaustive
def test_work_grows_with_the_stacks_and_not_with_the_samples(tmp_path: Path) -> None:
    def work(n_stacks: int, n_seconds: int) -> int:
        spool = many_stacks(tmp_path / "x.part", n_stacks, n_seconds)
        return steps(lambda: finish(spool, str(tmp_path / "out"), fake_symbols()))

    few = work(5_000, 20)
    assert few < work(10_000, 20) < 2 * few
    assert few <= work(5_000, 120) < 1.05 * few


@pytest.mark.exhaustive
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.first_cases(1)
def test_work_grows_with_the_threads(
    tmp_path: Path, sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all files that a run makes, at the bounds of their sizes, the page and the summary."""
    monkeypatch.setattr("pyhybrid.finish.finish.WORTH_A_PROCESS_BYTES", 1 << 40)
    formats = ["-f", "folded", "-f", "perf", "-f", "html", "--summary"]

    def work(n_threads: int) -> int:
        monkeypatch.setattr("pyhybrid.finish.finish.DEFAULT_LIMIT_BYTES", 8_000 * n_threads)
        spool = many_threads(tmp_path / "x.part", n_threads, sampled)
        return steps(lambda: main([*formats, spool, str(tmp_path / "out")]))

    few = work(300)
    assert few < work(600) < 2.1 * few


def test_main_makes_everything_and_removes_the_spool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = example().save(tmp_path / "out.pyhybrid.part")
    prefix = str(tmp_path / "out")
    assert main(["-f", "folded", "--format", "perf", "--keep", spool, prefix]) == 0
    assert capsys.readouterr().err == ""
    assert main(["-f", "folded", "--summary", spool, prefix]) == 0
    assert "samples  12 of" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["out.folded", "out.pyhybrid", "perf.data"]
    assert main([spool, prefix]) == 1
    err = capsys.readouterr().err
    assert err.startswith("pyhybrid: cannot read ")
    assert err.count("\n") == 1


def test_the_summary_does_not_wait_for_long_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one processor they are made one after the other."""
    monkeypatch.setattr("pyhybrid.finish.finish.WORTH_A_PROCESS_BYTES", 0)
    monkeypatch.setattr("pyhybrid.finish.finish.WAITED_FOR_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.chdir(tmp_path)
    spool = example().save(tmp_path / "out.pyhybrid.part")
    assert main(["-f", "folded", "-f", "perf", "--summary", spool, "out"]) == 0
    lines = capsys.readouterr().err.splitlines()
    written = ["wrote    out.pyhybrid", "wrote    perf.data, out.folded"]
    assert [line for line in lines if line.startswith("wrote")] == written
    assert lines[-2:] == written


@pytest.mark.parametrize("asked", [[], ["--summary"]])
def test_a_spool_that_cannot_be_finished_stays(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spool = example().save(tmp_path / "out.pyhybrid.part")
    assert main([*asked, spool, str(tmp_path / "no" / "out")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("pyhybrid: cannot write ")
    assert err.count("\n") == 1
    assert os.path.exists(spool)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # pytest-xdist's
@pytest.mark.parametrize(
    ("killed", "large", "by"), [(0, 1, "fork"), (1, 1, "fork this"), (0, 0, "this")]
)
def test_the_file_is_written_beside_reading_debug_information(
    tmp_path: Path, killed: bool, large: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a fork, if that lives, and the spool is worth one; nothing of it stays."""
    spool = example().save(tmp_path / "out.pyhybrid.part")
    alone = Path(make(spool, str(tmp_path / "alone"))[0]).read_bytes()
    this, writers = os.getpid(), tmp_path / "writers"
    write = Assembled.write

    def noted(made: Assembled, database: sqlite3.Connection) -> None:
        with writers.open("a") as file:
            file.write("this\n" if os.getpid() == this else "fork\n")
        write(made, database)
        if killed and os.getpid() != this:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Assembled, "write", noted)
    monkeypatch.setattr("pyhybrid.finish.forked_work._may_fork", lambda: True)
    if large:
        monkeypatch.setattr("pyhybrid.finish.finish.WORTH_A_PROCESS_BYTES", 1)
    assert main(["--summary", spool, str(tmp_path / "out")]) == 0
    assert writers.read_text().split() == by.split()
    assert (tmp_path / "out.pyhybrid").read_bytes() == alone
    assert sorted(os.listdir(tmp_path)) == ["alone.pyhybrid", "out.pyhybrid", "writers"]


def test_what_a_killed_finisher_left_is_no_obstacle(tmp_path: Path) -> None:
    """(Process numbers come again, in containers at once.)"""
    prefix = str(tmp_path / "out")
    spool = example().save(tmp_path / "out.pyhybrid.part")
    path = finish(spool, prefix, fake_symbols())
    good = Path(path).read_bytes()
    os.rename(path, f"{path}.{os.getpid()}.tmp")
    assert Path(finish(spool, prefix, fake_symbols())).read_bytes() == good
    assert sorted(os.listdir(tmp_path)) == ["out.pyhybrid", "out.pyhybrid.part"]


def test_the_names_stay_claimed_until_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = example().save(tmp_path / "out.pyhybrid.part")
    seen = []

    def export(*arguments: object) -> int:
        seen.append(os.path.exists(spool))
        return 0

    monkeypatch.setattr("pyhybrid.finish.finish.export", export)
    assert main(["-f", "folded", spool, str(tmp_path / "out")]) == 0
    assert seen == [True]
    assert not os.path.exists(spool)


class OneFunction:
    """A library that is all one function."""

    def resolve(self, addresses: list[int]) -> list[tuple[str, int, int, str]]:
        return [("work", 0, 0x1000, "symtab")] * len(addresses)


@pytest.mark.parametrize(("age_s", "build_id"), [(10, b""), (-10, b""), (-10, b"\xab" * 20)])
def test_a_library_that_changed_after_it_was_loaded(
    tmp_path: Path, age_s: int, build_id: bytes
) -> None:
    """A build-id would tell; without one names could be those of other functions."""
    library = tmp_path / "x.so"
    library.write_bytes(b"")
    writer = SpoolWriter()
    writer.meta(start_unix_ns=library.stat().st_ctime_ns + age_s * 10**9)
    writer.module(1, str(library), 0x7F0000000000, build_id=build_id)
    writer.thread(1, 1, "python")
    row = writer.stack(native(1, 0x10))
    writer.stacks()
    writer.samples(1, [row])
    spool = writer.save(tmp_path / "x.part")
    with open_profile(spool, (lambda path, build_id: OneFunction(), str)) as profile:
        (name,) = (frame.name for frame in profile.frames.values())
        if age_s > 0 or build_id:
            assert name == "work"
            assert profile.meta["notes"] == []
        else:
            assert name == "x.so!?"
            assert "no names: it has no build-id, and was changed" in profile.meta["notes"][0]


@pytest.mark.parametrize(
    "asked", [["-f", "nosuch"], ["--nosuch"], ["another"]], ids=["format", "option", "name"]
)
def test_what_cannot_be_asked_for(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spool = example().save(tmp_path / "out.pyhybrid.part")
    assert main([*asked, spool, str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert os.listdir(tmp_path) == ["out.pyhybrid.part"]


@pytest.mark.needs("installed")
def test_the_end_of_a_run_waits_for_no_heavy_imports(tmp_path: Path) -> None:
    """What takes longer to import than all of ours: each run waits for it."""
    heavy = {"argparse", "tempfile", "tomllib"}
    spool = example().save(tmp_path / "out.pyhybrid.part")
    code = "import sys; from pyhybrid.finish.finish import main; main(); print(*sys.modules)"
    asked = ["--summary", "-f", "folded", "-f", "perf", spool, str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *asked], capture_output=True, check=True
    )
    assert (tmp_path / "out.folded").exists()
    assert not heavy & set(done.stdout.decode().split())


def test_what_would_bring_other_code_into_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sanitizer's library stays: extensions of ours may be built with one."""
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libfaketime.so.1:/usr/lib/libasan.so.8")
    for name in ("LD_AUDIT", "NVTX_INJECTION64_PATH", "COVERAGE_PROCESS_START"):
        monkeypatch.setenv(name, "/x.so")
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://x")
    names = dict(each.split(b"=", 1) for each in finisher.environment())
    assert names[b"LD_PRELOAD"] == b"/usr/lib/libasan.so.8"
    assert names[b"DEBUGINFOD_URLS"] == b"https://x"
    assert not {b"LD_AUDIT", b"NVTX_INJECTION64_PATH", b"COVERAGE_PROCESS_START"} & names.keys()


@pytest.mark.parametrize(
    "is_there", [pytest.param(True, marks=pytest.mark.needs("installed")), False]
)
def test_what_site_would_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Where the extension modules are found without it: not in an editable installation."""
    if not is_there:
        elsewhere = types.SimpleNamespace(__file__=str(tmp_path / "_native.so"))
        monkeypatch.setitem(sys.modules, "pyhybrid._native", elsewhere)
    else:
        importlib.import_module("pyhybrid._native")
    command = finisher.Finisher(types.ModuleType("native"), sys.executable, 0o22).command
    assert (b"-S" in command) == is_there


def test_a_snapshot_of_nothing(tmp_path: Path) -> None:
    """The run has just begun, or its disk was full."""
    (tmp_path / "out.pyhybrid.part").touch()
    with pytest.raises(PyhybridError, match="nothing is recorded there yet"):
        make_snapshot(str(tmp_path / "out.pyhybrid.part"), str(tmp_path / "s"), "test")
    assert os.listdir(tmp_path) == ["out.pyhybrid.part"]
