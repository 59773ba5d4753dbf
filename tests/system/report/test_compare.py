"""`pyhybrid compare-cprofile`: what it says of programs whose calls and times are known."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, Run

pytestmark = pytest.mark.once

TRUTHS = TARGETS / "truths.py"
ROW = re.compile(r" *(\d+) +(\d+) +([\d.]+) +([\d.]+)  (\S+) \((.*):(\d+)\)(?: - (.*))?")


def rows(run: Run) -> dict[str, re.Match[str]]:
    """The table's rows, by function: (calls, calls, seconds, seconds, name, file, line, why)."""
    found = {}
    for line in run.result.stdout.splitlines():
        if match := ROW.fullmatch(line):
            found[match[5]] = match
    return found


def calls_equal(run: Run) -> bool:
    """Are they, but for what importlib does once for each folder, which either profiler's own
    imports may have done before?"""
    differ = [row for row in rows(run).values() if row[1] != row[2]]
    return all(row[6].startswith("<frozen") and row[8].startswith("imports:") for row in differ)


def one_line(run: Run, *says: str) -> None:
    assert run.result.returncode == 1
    assert run.result.stdout == ""
    (line,) = run.result.stderr.splitlines()
    assert line.startswith("pyhybrid: ")
    for text in says:
        assert text in line


def test_one_thread(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    run = pyhybrid("compare-cprofile", "-n", 1000, TARGETS / "counted" / "closures.py")
    assert run.result.stderr == ""
    assert calls_equal(run)
    if not rows(run):  # times may differ, by chance
        assert run.result.stdout.startswith("no difference")
        assert run.result.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.further
def test_recursion(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("compare-cprofile", "-n", 1000, TRUTHS, "recursion")
    assert calls_equal(run)
    # 200 levels are one time.  (Others may have the processors in one run and not in the other.)
    if row := rows(run).get("recursion.<locals>.down"):
        assert 0.05 < float(row[3]) / float(row[4]) < 20


@pytest.mark.further
def test_threads(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """Four threads, each busy for half a second of its own time, all at once.

    How long they took together, each run tells: cProfile has no time twice, pyhybrid that of each.
    """
    told = "open('said', 'a').write(json.dumps(threads()) + '\\n')\n"
    (tmp_path / "job.py").write_text(TRUTHS.read_text().rpartition("print(")[0] + told)
    run = pyhybrid("compare-cprofile", "job.py")
    by_cprofile, by_pyhybrid = map(json.loads, (tmp_path / "said").read_text().splitlines())
    assert len(run.result.stdout.splitlines()) <= 25
    row = rows(run)["threads.<locals>.work"]
    assert (row[1], row[2]) == ("4", "4")
    assert float(row[3]) < by_cprofile["outside"]
    assert float(row[4]) > by_pyhybrid["inside"] - 0.001  # as it is shown
    assert float(row[4]) >= 2
    assert row[8].startswith("ran on other threads")


@pytest.mark.further
def test_coroutines(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("compare-cprofile", "-n", 1000, TRUTHS, "coroutines")
    for name in ("task", "pause", "tasks"):
        assert name not in rows(run) or rows(run)[name][1] == rows(run)[name][2]


@pytest.mark.further
def test_an_exception_thrown_through_generators(pyhybrid: Callable[..., Run]) -> None:
    row = rows(pyhybrid("compare-cprofile", TRUTHS, "thrown"))["thrown.<locals>.outer"]
    assert int(row[2]) - int(row[1]) == 100
    assert "thrown through" in row[8]


@pytest.mark.further
def test_arguments_input_and_folder_are_the_same(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(
        "import os, sys\n"
        "def write(*words):\n"
        "    with open('said', 'a') as file:\n"
        "        print(*words, file=file)\n"
        "write(sys.argv, sys.path[0], sys.stdin.read(), os.getcwd(), __name__, __file__)\n"
        "print('not shown')\n"
    )
    run = pyhybrid("compare-cprofile", "job.py", "-n", "--x", input="over a pipe")
    assert "not shown" not in run.result.stdout
    first, second = (tmp_path / "said").read_text().splitlines()
    assert first == second
    for word in ("['job.py', '-n', '--x']", "over a pipe", "__main__", str(tmp_path)):
        assert word in first
    (tmp_path / "input").write_text("skipped, a file")
    with open(tmp_path / "input") as file:
        file.seek(9)
        pyhybrid("compare-cprofile", "job.py", stdin=file)
    for line in (tmp_path / "said").read_text().splitlines()[2:]:
        assert " a file " in line
        assert "skipped" not in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["input", "job.py", "said"]


@pytest.mark.further
def test_a_program_that_reads_nothing_of_an_open_pipe(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("pass\n")
    with subprocess.Popen(["sleep", f"{2 * PATIENCE_S}"], stdout=subprocess.PIPE) as never:
        pyhybrid("compare-cprofile", "job.py", stdin=never.stdout)
        never.kill()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ValueError('of mine')", "exit code 1): ValueError: of mine"),
        ("import sys; sys.exit(3)", "exit code 3)"),
        ("import os; os.abort()", "killed by signal 6"),
        ("import os; os._exit(0)", "ended without its profile"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_the_program_fails(
    pyhybrid: Callable[..., Run], tmp_path: Path, code: str, says: str
) -> None:
    (tmp_path / "job.py").write_text(code + "\n")
    one_line(pyhybrid("compare-cprofile", "job.py", check=False), says)


@pytest.mark.further
def test_usage(pyhybrid: Callable[..., Run]) -> None:
    for arguments in ([], ["nowhere.py"], ["--frobnicate", "x.py"], ["-n", "0", "x.py"]):
        run = pyhybrid("compare-cprofile", *arguments, check=False)
        assert run.result.returncode == 2
        assert len(run.result.stderr.splitlines()) == 1
