"""pstats and callgrind files of traces made by hand: recursion, threads, names that are shared."""

import marshal
import pstats
import re
from pathlib import Path
from typing import Any

import pytest
from example_profile import PATHS, PYTHON, fake_symbols
from spool_writer import SpoolWriter, c_call, python

from pyhybrid.assemble import open_profile
from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.callgrind import Callgrind
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.pstats import PStats
from pyhybrid.tables.profile import Profile

JOB = "/home/me/job.py"
MODULE, A, B, TWIN, WORKER = range(1, 6)
KEYS = {
    MODULE: (JOB, 1, "<module>"),
    A: (JOB, 10, "a"),
    B: (JOB, 20, "b"),
    TWIN: (JOB, 30, "a"),
    WORKER: ("/opt/other.py", 7, "Worker.run"),
}


def trace(tmp_path: Path, *threads: list[tuple[int, int, dict[str, int]]]) -> Profile:
    """A profile of these threads: each a list of (parent node, function, counts)."""
    spool = SpoolWriter()
    spool.meta(mode="trace", cwd="/home/you")
    for index, (file, line, name) in KEYS.items():
        spool.code(index, name, file, line)
    for index, rows in enumerate(threads, 1):
        spool.exact_thread(index, 4241 + index)
        spool.exact_nodes(index, 1, *((parent, python(code, 0)) for parent, code, _ in rows))
        counts = [{"node": node, **row[2]} for node, row in enumerate(rows, 1)]
        spool.exact_counts(index, *counts)
    spool.end()
    return open_profile(spool.save(tmp_path / "x.part"), fake_symbols())


def stats(profile: Profile, tmp_path: Path) -> dict[Any, Any]:
    """What is written as pstats, by function as a number; read by pstats as well."""
    path = tmp_path / "out.pstats"
    assert export_to(PStats(), profile, str(path)) == (str(path), [])
    read = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    assert read == marshal.loads(path.read_bytes())
    of = {key: code for code, key in KEYS.items()}
    return {
        of[key]: (*row[:4], {of[by]: figures for by, figures in row[4].items()})
        for key, row in read.items()
    }


def callgrind(profile: Profile) -> tuple[dict[str, int], dict[tuple[str, str], tuple[int, int]]]:
    """Self cost by function, and (calls, inclusive cost) by (caller, callee), as file:function."""
    names: dict[tuple[str, str], str] = {}
    at: dict[str, str] = {}
    costs: dict[str, int] = {}
    calls: dict[tuple[str, str], tuple[int, int]] = {}
    count = None
    for line in Callgrind().lines(profile):
        if match := re.fullmatch(r"(c?)f([lin])=\((\d+)\)(?: (.+))?", line):
            called, kind, number, name = match.groups()
            table = "fn" if kind == "n" else "fl"
            if name:
                assert (table, number) not in names
                names[table, number] = name
            at[called + table] = names[table, number]
        elif match := re.fullmatch(r"calls=(\d+) \d+", line):
            count = int(match[1])
        elif match := re.fullmatch(r"\d+ (\d+)", line):
            function = f"{at['fl']}:{at['fn']}"
            if count is None:
                assert function not in costs
                costs[function] = int(match[1])
            else:
                calls[function, f"{at['cfl']}:{at['cfn']}"] = count, int(match[1])
                count = None
        elif match := re.fullmatch(r"(?:totals|summary): (\d+)", line):
            total = int(match[1])
    assert total == sum(costs.values())
    return costs, calls


def test_mutual_recursion(tmp_path: Path) -> None:
    """<module> calls a, a calls b, b calls a and so on: each function's time counts once."""
    rows = [
        (0, MODULE, {"calls": 1, "ticks": 100}),
        (1, A, {"calls": 2, "ticks": 90}),
        (2, B, {"calls": 3, "ticks": 70}),
        (3, A, {"calls": 4, "ticks": 40}),
        (4, B, {"calls": 5, "ticks": 10}),
    ]
    with trace(tmp_path, rows) as profile:
        found = stats(profile, tmp_path)
        costs, calls = callgrind(profile)
    assert found[MODULE] == (1, 1, 1e-8, 1e-7, {})
    # Callers: (calls, those that were no recursion of this function through this caller).
    assert found[A][:2] == (2, 6)
    assert found[A][2:4] == pytest.approx((50e-9, 90e-9))
    assert {by: row[:2] for by, row in found[A][4].items()} == {MODULE: (2, 2), B: (4, 4)}
    assert found[B][:2] == (3, 8)
    assert {by: row[:2] for by, row in found[B][4].items()} == {A: (8, 3)}
    assert costs == {"???:[threads]": 0, f"{JOB}:<module>": 10, f"{JOB}:a": 50, f"{JOB}:b": 40}
    assert calls == {
        ("???:[threads]", f"{JOB}:<module>"): (1, 100),
        (f"{JOB}:<module>", f"{JOB}:a"): (2, 90),
        (f"{JOB}:a", f"{JOB}:b"): (8, 70),
        (f"{JOB}:b", f"{JOB}:a"): (4, 0),
    }


def test_two_threads_are_one_function(tmp_path: Path) -> None:
    first = [(0, MODULE, {"calls": 1, "ticks": 50}), (1, A, {"calls": 1, "ticks": 20})]
    second = [
        (0, WORKER, {"calls": 1, "ticks": 30}),
        (1, A, {"calls": 2, "resumes": 3, "ticks": 9}),
    ]
    with trace(tmp_path, first, second) as profile:
        found = stats(profile, tmp_path)
        costs, calls = callgrind(profile)
    assert found[A][:2] == (6, 6)
    assert found[A][3] == pytest.approx(29e-9)
    assert {by: row[0] for by, row in found[A][4].items()} == {MODULE: 1, WORKER: 5}
    assert costs[f"{JOB}:a"] == 29
    assert calls["/opt/other.py:Worker.run", f"{JOB}:a"] == (5, 9)
    assert calls["???:[threads]", "/opt/other.py:Worker.run"] == (1, 30)


def test_functions_of_one_name_keep_apart(tmp_path: Path) -> None:
    rows = [(0, A, {"calls": 1, "ticks": 5}), (0, TWIN, {"calls": 2, "ticks": 7})]
    with trace(tmp_path, rows) as profile:
        assert callgrind(profile)[0] == {"???:[threads]": 0, f"{JOB}:a:10": 5, f"{JOB}:a:30": 7}


def test_files_below_the_working_directory_are_relative(tmp_path: Path) -> None:
    with trace(tmp_path, [(0, A, {"calls": 1, "ticks": 5})]) as profile:
        profile.meta["cwd"] = "/home/me"
        assert "job.py:a" in callgrind(profile)[0]


def test_what_had_begun_before_has_a_cost_but_no_call(tmp_path: Path) -> None:
    with trace(tmp_path, [(0, WORKER, {"seeded": 1, "ticks": 8})]) as profile:
        assert stats(profile, tmp_path)[WORKER][:2] == (0, 0)
        assert callgrind(profile)[1] == {("???:[threads]", "/opt/other.py:Worker.run"): (1, 8)}


def test_frames_that_pstats_cannot_tell_apart_are_summed(tmp_path: Path) -> None:
    rows = [(0, A, {"calls": 1, "ticks": 5}), (0, TWIN, {"calls": 2, "ticks": 7})]
    with trace(tmp_path, rows) as profile:
        frames = {at: frame._replace(line=10) for at, frame in profile.frames.items()}
        assert stats(profile.replaced(frames=frames), tmp_path)[A][:2] == (3, 3)


def test_strange_names(tmp_path: Path) -> None:
    odd = {"name": "(1) od\nd\udc80", "file": None, "line": None}
    with trace(tmp_path, [(0, A, {"calls": 1, "ticks": 5})]) as plain:
        frames = {at: frame._replace(**odd) for at, frame in plain.frames.items()}
        profile = plain.replaced(frames=frames)
        ((key, _),) = PStats().stats(profile).items()
        assert key == ("~", 0, "(1) od\nd\\udc80")
        assert callgrind(profile)[0] == {"???:[threads]": 0, "???:(1) od d\udc80": 5}
        export_to(Callgrind(), profile, str(tmp_path / "callgrind.out"))
        export_to(PStats(), profile, str(tmp_path / "out.pstats"))


def test_c_functions_have_their_python_names(tmp_path: Path) -> None:
    spool = SpoolWriter()
    spool.meta(mode="trace", c_calls=True, cwd="/home/you")
    spool.module(PYTHON, PATHS[PYTHON], 0x7F0000000000)
    spool.code(A, "a", JOB, 10)
    spool.code(B, "b", JOB, 20)
    spool.c_function(0x7F0000000500, "<built-in method builtins.sorted>")
    spool.exact_thread(1, 4242)
    spool.exact_nodes(1, 1, (0, python(A, 0)), (1, c_call(PYTHON, 0x500)), (2, python(B, 0)))
    counts = ((1, 1, 100), (2, 2, 90), (3, 6, 50))
    spool.exact_counts(1, *({"node": i, "calls": n, "ticks": ticks} for i, n, ticks in counts))
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        found = PStats().stats(profile)
        costs, calls = callgrind(profile)
    built_in = ("~", 0, "<built-in method builtins.sorted>")
    assert found[built_in] == (2, 2, 40e-9, 90e-9, {KEYS[A]: (2, 2, 40e-9, 90e-9)})
    assert found[KEYS[B]][4].keys() == {built_in}
    assert costs == {"???:[threads]": 0, f"{JOB}:a": 10, f"???:{built_in[2]}": 40, f"{JOB}:b": 50}
    assert calls[f"{JOB}:a", f"???:{built_in[2]}"] == (2, 90)
    assert calls[f"???:{built_in[2]}", f"{JOB}:b"] == (6, 50)


@pytest.mark.parametrize("exporter", [PStats, Callgrind])
def test_nothing_was_traced(
    exporter: type[PStats | Callgrind], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with trace(tmp_path) as profile, pytest.raises(PyhybridError, match="no calls were traced"):
        export_to(exporter(), profile, str(tmp_path / "out"))
    with pytest.raises(SystemExit) as exit:
        main(["export", "-f", exporter.name, str(tmp_path / "x.part")])
    assert exit.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pyhybrid: ")
    assert "no calls were traced (--mode trace or hybrid)" in line
    assert [p.name for p in tmp_path.iterdir()] == ["x.part"]
