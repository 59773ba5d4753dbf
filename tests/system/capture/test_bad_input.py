"""Bad input: one clear line, exit code 2 for usage and unsupported systems, 1 otherwise."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support import Run

import pyhybrid as package


def one_line(run: Run, code: int, *says: str) -> None:
    assert run.result.returncode == code, run.result.stderr
    (line,) = run.result.stderr.splitlines()
    assert line.startswith("pyhybrid: ")
    for text in says:
        assert text in line
    assert run.result.stdout == ""


USAGE = {
    "no program": ([], "missing"),
    "unknown script": (["nowhere.py"], "nowhere.py"),
    "hz 0": (["--hz", "0", "-c", "1"], "--hz"),
    "hz abc": (["--hz", "abc", "-c", "1"], "abc"),
    "hz negative": (["--hz", "-5", "-c", "1"], "--hz"),
    "unknown option": (["--frobnicate", "-c", "1"], "frobnicate"),
    "a misspelled option": (["--kep", "f", "-c", "1"], "no option --kep: --keep? (see"),
    "a misspelled option of a report": (
        ["report", "calls", "--slowst"],
        "no option --slowst: --slowest?",
    ),
    "an empty name": (["--keep", "", "-c", "1"], "--keep: the name is empty"),
    "a profile merged with itself": (["merge", "x", "./x", "-o", "y"], "is named twice"),
    "option without value": (["--hz"], "--hz"),
    "unknown format": (["--format", "pdf", "-c", "1"], "pdf"),
    "unknown clock": (["--clock", "sand", "-c", "1"], "sand"),
    "engine of another clock": (
        ["--clock", "wall", "--engine", "timer", "-c", "1"],
        "--clock wall has its own",
    ),
    "mode": (["--mode", "fast", "-c", "1"], "fast"),
    "-m without a name": (["-m"], "-m"),
    "export without format": (["export", "out.pyhybrid"], "-f"),
    "a misspelled view": (["report", "stpes"], "no file and no view 'stpes': steps? (views: summ"),
    "no view": (["report", "everything"], "no view 'everything' (views: summary, tree, lines"),
    "a view as an option": (["report", "--steps"], "a word without dashes: report steps"),
    "a view behind the file": (["report", "out.pyhybrid", "tree"], "first: report tree out.py"),
    "two views": (["report", "lines", "tree", "out.pyhybrid"], "unrecognized arguments: out"),
    "an option of other views": (
        ["report", "tree", "--slowest", "3"],
        "goes with report calls, requests, steps",
    ),
    "an option of another view": (["report", "--by-class"], "--by-class goes with report modules"),
    "a height of JSON": (["report", "--height", "30", "--json"], "--height is for text"),
    "names of another format": (["export", "-f", "perf", "--all-frames"], "is for folded and html"),
    "export in an unknown format": (["export", "-f", "pdf"], "pdf"),
}


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("what", USAGE)
def test_usage(pyhybrid: Callable[..., Run], tmp_path: Path, what: str) -> None:
    arguments, says = USAGE[what]
    one_line(pyhybrid(*arguments, check=False), 2, says)
    assert not [*tmp_path.iterdir()]


@pytest.mark.further
def test_syntax_error_in_the_program(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(:\n")
    run = pyhybrid("-q", "bad.py", check=False)
    bare = subprocess.run(
        [sys.executable, "bad.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.result.returncode, run.result.stderr) == (1, bare.stderr)


def test_output_folder(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """One that is not there is made; where nothing can be written the program runs all the same."""
    program = ["-c", "open('ran', 'w')"]
    pyhybrid("-q", "-o", "nowhere/yet/out", *program)
    assert (tmp_path / "nowhere" / "yet" / "out.pyhybrid").exists()
    (tmp_path / "ran").unlink()
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    (tmp_path / "closed").mkdir(mode=0o555)
    refused = {"n" * (longest - 14): "too long"}
    if os.geteuid() != 0:
        refused["closed/out"] = "closed"
    for output, says in refused.items():
        one_line(pyhybrid("-o", output, *program), 0, says, "runs without a profile")
        (tmp_path / "ran").unlink()


@pytest.mark.further
def test_output_may_name_the_profile_file(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    pyhybrid("-q", "--format", "folded", "-o", "run.pyhybrid", "-c", "pass")
    assert {path.name for path in tmp_path.glob("*run*")} == {"run.pyhybrid", "run.folded"}


@pytest.mark.further
@pytest.mark.engine
def test_a_rate_that_costs_too_much(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--hz", 1_000_000, "--format", "folded", "-c", "sum(range(10**7))")
    meta = run.profile().meta
    assert meta["hz_asked"] == 1_000_000
    if meta["engine"] in ("sigtrap", "perf_event"):
        assert 1000 <= meta["hz"] < 200_000
        assert meta["cost_ns"] * meta["hz"] <= 0.2e9
        assert re.search(
            r"1000000 Hz would cost more than 20 % of a core .*: \d+ Hz", run.result.stderr
        )


BAD_FILES = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello\n" * 100),
    "truncated": lambda path: path.write_bytes(path.with_name("good").read_bytes()[:5000]),
    "other database": lambda path: sqlite(path, "CREATE TABLE t (x)"),
    "newer schema": lambda path: newer(path),
    "newer spool": lambda path: path.write_bytes(b"PYHSPOOL\x63\0\0\0\1\0\0\0"),
}


def sqlite(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sql)


def newer(path: Path) -> None:
    path.write_bytes(path.with_name("good").read_bytes())
    sqlite(path, "PRAGMA user_version = 99")


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("what", BAD_FILES)
def test_bad_profile_files(pyhybrid: Callable[..., Run], tmp_path: Path, what: str) -> None:
    pyhybrid("-q", "--format", "folded", "-c", "sum(range(10**6))")
    (tmp_path / "out.pyhybrid").rename(tmp_path / "good")
    BAD_FILES[what](tmp_path / "bad")
    one_line(pyhybrid("report", "./bad", check=False), 1, "bad")
    one_line(pyhybrid("export", "bad", "-f", "folded", check=False), 1, "bad")


@pytest.mark.further
def test_an_older_interpreter(tmp_path: Path) -> None:
    old = "/usr/bin/python3"
    version = subprocess.run(
        [old, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    if version.returncode or tuple(map(int, version.stdout.split())) >= (3, 12):
        pytest.skip("the system's python3 is not older than 3.12")
    root = str(Path(package.__file__).parent.parent)
    done = subprocess.run(
        [old, "-m", "pyhybrid", "-c", "print(1)"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": root},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "3.12" in line


@pytest.mark.engine
def test_an_existing_profile_is_replaced_by_a_whole_one_or_not_at_all(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """No room for the result: the old one stands, the spool stays."""
    pyhybrid("-q", "--format", "folded", "-c", "pass")
    before = (tmp_path / "out.pyhybrid").read_bytes()
    program = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sum(range(10**6))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
    )
    run = pyhybrid("--format", "folded", "-c", program, check=False)
    assert run.result.returncode == 0
    assert "pyhybrid: " in run.result.stderr
    assert "Traceback (most" not in run.result.stderr
    assert (tmp_path / "out.pyhybrid").read_bytes() == before
    assert (tmp_path / "out.pyhybrid.part").exists()
    assert not list(tmp_path.glob("*.tmp*"))
