"""`pyhybrid diff`: what it says of real runs whose difference is known."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import TARGETS, Run, made_once, record
from torch_support import TorchProcess

from pyhybrid.assemble import open_profile
from pyhybrid.cli.diff_in_turns import commands
from pyhybrid.errors import UsageError
from pyhybrid.views.diff.runs import compare

pytestmark = pytest.mark.once

PROGRAM = TARGETS / "compared.py"


@pytest.fixture
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `a` and `b`, in which `augment` works four times as long and `extra` runs."""

    def make(folder: Path) -> None:
        for name, factor in (("a", 1), ("b", 4)):
            record(folder, "-q", "-o", name, "--format", "folded", PROGRAM, 120, factor)

    return made_once(tmp_path_factory, "two_runs", make)


def test_two_runs(two: Path, pyhybrid: Callable[..., Run]) -> None:
    """Calls are exact, and a function that works much longer is found; its caller, too."""
    text = pyhybrid("diff", "a.pyhybrid", "b.pyhybrid", cwd=two).result.stdout
    assert "1 of " in text
    assert "1 new" in text
    assert "note     not the same command: " in text
    assert "compared.py 120 1 before, " in text
    run = pyhybrid("diff", "--json", "a.pyhybrid", "--", "b.pyhybrid", cwd=two)
    found = json.loads(run.result.stdout)
    by_name = {each["function"]["name"]: each for each in found["functions"]}
    assert [n for n, each in by_name.items() if each["calls_differ"]] == ["extra"]
    assert by_name["extra"]["calls"] == [[0], [1]]
    assert by_name["augment"]["calls"] == [[120], [120]]
    assert by_name["augment"]["differs"]
    assert by_name["augment"]["total"]["low"] > 0.5
    assert by_name["augment"]["per_call"]["after"] > by_name["augment"]["per_call"]["before"]
    assert by_name["augment"]["per_call_differs"] is None  # one run a side
    assert by_name["step"]["total"]["change"] > 0
    assert not found["by_runs"]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--fail-if", "total(augment) > +50%"], 1),
        (["--fail-if", "calls(augment) > 0%", "--fail-if", "total(augment) > 10000%"], 0),
        (["--fail-if", "time(augment) > 5%"], 2),
        (["--fail-if", "time(augment) > 5%", "--allow-unsure"], 0),
        (["--fail-if", "share(nothing) > 5%", "--allow-unsure"], 3),
        (["--fail-if", "time(augment) > 5%", "--fail-if", "calls(extra) > 0%"], 1),
        (["--fail-if", "share(augment) > +50%"], 1),
        (["--fail-if", "share(augment) > 5"], 3),
        (["no.pyhybrid"], 3),
    ],
)
def test_exit_codes(
    two: Path, pyhybrid: Callable[..., Run], arguments: list[str], code: int
) -> None:
    files = ("a.pyhybrid", "--", "b.pyhybrid")
    run = pyhybrid("diff", *files, *arguments, check=False, cwd=two)
    assert run.result.returncode == code


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "files", [["a"], ["a", "b", "c"], ["a", "--"], ["--", "b"], ["a", "--", "b", "--", "c"]]
)
def test_usage(pyhybrid: Callable[..., Run], files: list[str]) -> None:
    run = pyhybrid("diff", *files, check=False)
    assert run.result.returncode == 3
    assert run.result.stdout == ""
    assert run.result.stderr.startswith("pyhybrid: ")
    assert run.result.stderr.count("\n") == 1


def test_markdown(two: Path, pyhybrid: Callable[..., Run]) -> None:
    limit = ("--fail-if", "total(augment) > +50%")
    run = pyhybrid("diff", "--markdown", *limit, "a.pyhybrid", "b.pyhybrid", check=False, cwd=two)
    lines = run.result.stdout.splitlines()
    assert lines[0] == "### \N{CROSS MARK} exceeded: 1 of 1 limit (pyhybrid diff)"
    assert lines[2].startswith("- \N{CROSS MARK} **exceeded: total(augment) \\> +50%: +")
    (at,) = (at for at, line in enumerate(lines) if line.startswith("**sampled time: "))
    folded = next(at for at in range(at, len(lines)) if lines[at].startswith("<details>"))
    assert any("`augment (" in line for line in lines[at:folded])


def test_programs_in_turns(tmp_path: Path, pyhybrid: Callable[..., Run]) -> None:
    """One run a side does not show how the time of a call varies, so there are as many as may be;
    what each prints is kept."""
    limits = ("--fail-if", "time(augment) > +1%", "--fail-if", "calls(extra) > 0%")
    how = ("--run", 1, "--run-most", 3, "-o", "runs", *limits)
    sides = ("--", PROGRAM, 5, 1, "--", "--mode", "trace", PROGRAM, 5, 4)
    run = pyhybrid("diff", *map(str, (*how, *sides)), check=False, cwd=tmp_path)
    assert run.result.returncode == 1
    assert "exceeded: calls(extra) > +0%" in run.result.stdout
    assert "(3 runs)" in run.result.stdout
    names = [
        f"{side}{n}.{end}"
        for side in ("before", "after")
        for n in (1, 2, 3)
        for end in ("pyhybrid", "log")
    ]
    assert {each.name for each in (tmp_path / "runs").iterdir()} >= set(names)


def test_a_program_that_fails(tmp_path: Path, pyhybrid: Callable[..., Run]) -> None:
    program = ("-c", "import sys; print('no database'); sys.exit(5)")
    run = pyhybrid("diff", "--run", "3", "--", *program, "--", *program, check=False, cwd=tmp_path)
    assert (run.result.returncode, run.result.stdout) == (3, "")
    *_, last = run.result.stderr.splitlines()
    assert "run 1 of before (-c import sys; " in last
    assert "failed, exit code 5: no database; its output is in " in last
    log = Path(last.rpartition(" ")[2])
    assert log.read_text().startswith("no database\n")
    shutil.rmtree(log.parent)


@pytest.mark.parametrize(
    ("words", "sides"),
    [
        ("a.py 1 -- -m b -q", ("a.py 1", "-m b -q")),
        ("--hz 99 -- a -- b c -- -- d -- e", ("--hz 99 -- a -- b c", "-- d -- e")),
        ("a.py", None),
        ("a.py -- --hz 99", None),
        ("a.py -- -- b.py", None),
    ],
)
def test_two_command_lines(words: str, sides: tuple[str, str] | None) -> None:
    if sides:
        assert commands(words.split()) == tuple(each.split() for each in sides)
        return
    with pytest.raises(UsageError, match="diff --run N takes two programs"):
        commands(words.split())


@pytest.mark.further
def test_a_file_and_itself(two: Path, pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("diff", "a.pyhybrid", "a.pyhybrid", cwd=two)
    assert "calls: 0 of " in run.result.stdout
    assert "sampled time: 0 of " in run.result.stdout


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_many_runs_of_a_training(tmp_path: Path, torch_process: TorchProcess) -> None:
    """Of six ways to divide equal runs at most one shows a difference; a real one is found.

    On a busy machine the runs of a side differ by a third: six of them tell, four may not.
    """
    options = ["-q", "--format", "folded", "-o"]
    same, more = [], []
    for number in range(18):  # alternating, so that a machine that gets busier is none's difference
        runs, factor = (more, 6) if number % 3 == 2 else (same, 1)
        words = (f"run{number}", PROGRAM, 50, factor, "torch")
        torch_process.profiled(tmp_path, *options, *words)
        runs.append(str(tmp_path / f"run{number}.pyhybrid"))
    chance, alarms = random.Random(0), []
    for _ in range(6):
        mixed = chance.sample(same, 12)
        found = compare(mixed[:6], mixed[6:], open_profile)
        alarms.append([each.function for each in found.functions if each.differs])
    assert sum(map(bool, alarms)) <= 1, alarms
    found = compare(same[::2], more, open_profile)
    assert "augment" in [each.function.name for each in found.functions if each.differs]
