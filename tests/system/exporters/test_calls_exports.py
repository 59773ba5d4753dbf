"""What other people's tools read of exact calls: pstats, gprof2dot, callgrind_annotate."""

from __future__ import annotations

import pstats
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import TARGETS, Run, command, made_once

from pyhybrid.exporters.callgrind import THREADS
from pyhybrid.views.calls.function_calls import function_calls

CALLGRIND = "callgrind.out"
PROGRAMS = ["recursion", "generators", "classes", "closures"]

pytestmark = pytest.mark.once

CPROFILE = """\
import cProfile, sys
with open(sys.argv[1]) as file:
    program = compile(file.read(), sys.argv[1], "exec")
profile = cProfile.Profile()
space = {"__name__": "__main__"}
profile.enable(builtins=False)  # 3.14 forgets what its constructor was told
try:
    exec(program, space, space)
finally:
    profile.disable()
profile.dump_stats(sys.argv[2])
"""


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of counted/, in the folder in which it was traced and exported."""

    def make(folder: Path) -> None:
        shutil.copy(TARGETS / "counted" / f"{request.param}.py", folder)
        command(folder, "-q", "--mode", "trace", f"{folder}/{request.param}.py")
        command(folder, "export", "-f", "pstats", "-f", "callgrind")

    return made_once(tmp_path_factory, request.param, make) / f"{request.param}.py"


@pytest.fixture
def run(program: Path) -> Iterator[Run]:
    run = Run.recorded(program.parent)
    yield run
    run.close()


def tool(run: Run, *command: str, stdin: str = "") -> str:
    """The output of a tool that has nothing to complain of."""
    done = subprocess.run(
        command, cwd=run.folder, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def read(path: Path, file: str) -> dict[Any, Any]:
    """(primitive calls, calls, {caller: (calls, primitive calls)}) of a file's functions, by line
    and last part of the name."""

    def key(function: tuple[str, int, str]) -> tuple[int, str]:
        return function[1], function[2].rpartition(".")[2]

    stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
    return {
        key(function): (
            primitive,
            calls,
            {key(by): row[:2] for by, row in callers.items() if by[0] == file},
        )
        for function, (primitive, calls, _, _, callers) in stats.items()
        if function[0] == file
    }


@pytest.mark.first_cases(1)
def test_pstats_says_what_cprofile_says(run: Run, program: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "cprofile"
    subprocess.run([sys.executable, "-c", CPROFILE, program, theirs], check=True)
    ours = read(run.path("out.pstats"), str(program))
    assert len(ours) > 3
    assert ours == read(theirs, str(program))


@pytest.mark.further
def test_pstats_browser(run: Run) -> None:
    text = tool(
        run,
        *(sys.executable, "-P", "-m", "pstats", "out.pstats"),
        stdin="sort calls\nstats 5\ncallers 5\ncallees 5\nstrip\nsort cumulative\nstats\nquit\n",
    )
    stats = pstats.Stats(str(run.path("out.pstats")))
    total: int = stats.total_calls  # type: ignore[attr-defined]
    assert re.search(rf"\b{total} function calls", text)
    assert "<module>" in text
    assert not re.search("error|invalid|unknown", text, re.IGNORECASE)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("form", "name"), [("pstats", "out.pstats"), ("callgrind", CALLGRIND)])
def test_gprof2dot(run: Run, program: Path, form: str, name: str) -> None:
    text = tool(run, sys.executable, "-P", "-m", "gprof2dot", "-f", form, name)
    assert text.startswith("digraph {")
    function = "<module>" if form == "callgrind" else f"{program.stem}:1:<module>"
    match = re.search(rf'label="{function}\\n([\d.]+)%', text)
    assert match
    profile = run.profile()
    whole = sum(f.self_ns for f in function_calls(profile).values())
    (of_module,) = (
        f.total_ns
        for frame, f in function_calls(profile).items()
        if (profile.frames[frame].name, profile.frames[frame].file) == ("<module>", str(program))
    )
    assert float(match[1]) == pytest.approx(100 * of_module / whole, abs=0.02)


def annotated(run: Run, *options: str, file: str | Path = CALLGRIND) -> Counter[str]:
    """Cost by file:function, as callgrind_annotate says."""
    options = ("--auto=no", "--show-percs=no", "--threshold=100", *options)
    text = tool(run, "callgrind_annotate", *options, str(file))
    table = text.partition("file:function")[2]
    rows = re.findall(r"^\s*([\d,]+)\s+(\S.*?)\s*$", table, re.MULTILINE)
    assert len(rows) == len({name for _, name in rows})
    return Counter({name: int(cost.replace(",", "")) for cost, name in rows})


def expected(run: Run, field: str) -> Counter[str]:
    """The same by the profile itself; functions of one name and file are one here."""
    profile = run.profile()
    costs: Counter[str] = Counter()
    for frame, function in function_calls(profile).items():
        row = profile.frames[frame]
        file = (row.file or "???").removeprefix(f"{run.folder}/")
        costs[f"{file}:{row.name}"] += getattr(function, field)
    return +costs


def together(costs: Counter[str]) -> Counter[str]:
    """Without the lines that tell functions of one name apart."""
    joined: Counter[str] = Counter()
    for name, cost in costs.items():
        joined[re.sub(r":\d+$", "", name)] += cost
    return +joined


@pytest.mark.first_cases(1)
@pytest.mark.needs("callgrind_annotate")
def test_callgrind_annotate(run: Run) -> None:
    ours = expected(run, "self_ns")
    assert together(annotated(run)) == ours
    text = tool(run, "callgrind_annotate", "--show-percs=no", CALLGRIND)
    match = re.search(r"([\d,]+)\s+PROGRAM TOTALS", text)
    assert match
    assert int(match[1].replace(",", "")) == sum(ours.values())
    assert "WARNING" not in text


@pytest.mark.further
@pytest.mark.needs("callgrind_annotate")
def test_callgrind_annotate_inclusive(run: Run) -> None:
    costs = annotated(run, "--inclusive=yes")
    assert costs.pop(f"???:{THREADS}") >= max(costs.values())
    assert together(costs) == expected(run, "total_ns")


@pytest.mark.further
@pytest.mark.needs("callgrind_annotate")
def test_callgrind_annotate_counts_calls(run: Run, program: Path) -> None:
    text = tool(
        run,
        *("callgrind_annotate", "--auto=no", "--show-percs=no", "--threshold=100", "--tree=caller"),
        CALLGRIND,
    )
    counted: Counter[str] = Counter()
    waiting = 0
    for line in text.splitlines():
        if match := re.match(r"\s*[\d,.]+\s+< .* \(([\d,]+)x\)", line):
            waiting += int(match[1].replace(",", ""))
        elif match := re.match(rf"\s*[\d,.]+\s+\*\s+{re.escape(program.name)}:(.*?)\s*$", line):
            counted[re.sub(r":\d+$", "", match[1])] += waiting
            waiting = 0
        elif " * " in line:
            waiting = 0
    ours = {
        name.removeprefix(f"{program.name}:"): turns
        for name, turns in expected(run, "turns").items()
        if name.startswith(f"{program.name}:")
    }
    assert ours
    assert {name: n for name, n in counted.items() if name in ours} == ours


@pytest.mark.further
@pytest.mark.needs("callgrind_annotate")
def test_a_cut_off_keeps_the_readers_sums(
    run: Run, pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    whole, totals = expected(run, "self_ns"), sorted(expected(run, "total_ns").values())
    least_ns = totals[len(totals) // 2]
    shutil.copy(run.path(), tmp_path)
    pyhybrid("export", "-f", "pstats", "-f", "callgrind", "--min-time", f"{least_ns}ns")
    cut = together(annotated(run, file=tmp_path / CALLGRIND))
    assert cut.total() == whole.total()
    assert cut.keys() < whole.keys()
    inclusive = annotated(run, "--inclusive=yes", file=tmp_path / CALLGRIND)
    outermost = inclusive.pop(f"???:{THREADS}")
    assert outermost == whole.total()
    total_ns = expected(run, "total_ns")
    assert all(cost <= total_ns[name] for name, cost in together(inclusive).items())
    seconds: float = pstats.Stats(str(tmp_path / "out.pstats")).total_tt  # type: ignore[attr-defined]
    assert seconds == pytest.approx(whole.total() / 1e9)


@pytest.mark.further
def test_a_profile_without_calls(pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("-q", "--mode", "sample", "--format", "folded", "-c", "pass")
    for form in ("pstats", "callgrind"):
        run = pyhybrid("export", "-f", form, check=False)
        assert run.result.returncode == 1
        assert re.fullmatch(r"pyhybrid: .*no calls were traced.*\n", run.result.stderr)
