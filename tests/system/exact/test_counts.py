"""Calls and callers equal cProfile's, function by function, on programs of different kinds."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES, check_exact, counts_below
from support import TARGETS, Run, build_extension

from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import function_calls

pytestmark = [pytest.mark.version, pytest.mark.once]

PROGRAMS = sorted((TARGETS / "counted").glob("*.py"))


def counted_by_cprofile(program: Path, folder: Path) -> dict[str, tuple[int, dict[str, int]]]:
    file = folder / "cprofile.json"
    subprocess.run([sys.executable, "-P", TARGETS / "counted.py", program, file], check=True)
    return {key: (calls, callers) for key, calls, callers in json.loads(file.read_text())}


def check_view(profile: Profile) -> None:
    """The view `function` of the file has the totals that reports have: recursion counts once."""
    view = profile.query("SELECT name, file, line, kind, calls, self_ns, total_ns FROM function")
    frames = profile.frames
    assert Counter(view) == Counter(
        (*(frames[f].name, frames[f].file, frames[f].line, frames[f].kind), *figures)
        for f, each in function_calls(profile).items()
        for figures in [(each.calls, each.self_ns, each.total_ns)]
    )
    assert [row[-1] for row in view] == sorted((row[-1] for row in view), reverse=True)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_calls_and_callers(
    pyhybrid: Callable[..., Run], program: Path, mode: str, tmp_path: Path
) -> None:
    run = pyhybrid("--mode", mode, "--format", "folded", TARGETS / "counted.py", program)
    profile = run.profile()
    check_exact(profile)
    check_view(profile)
    ours = counts_below(profile, f"{program}:1:<module>")
    theirs = counted_by_cprofile(program, tmp_path)
    assert len(theirs) > 3
    assert {key: of.calls for key, of in ours.items()} == {k: n for k, (n, _) in theirs.items()}
    assert {key: dict(of.callers) for key, of in ours.items()} == {
        key: callers for key, (_, callers) in theirs.items()
    }


# --- from deep native stacks --------------------------------------------------------------------

SPINE, DEPTH, TIMES = 60, 6, 5

DEEP = f"""
import deep_calls
def leaf():
    pass
def shallow():
    deep_calls.walk(leaf, 0, 1)
def main():
    for _ in range({TIMES}):
        deep_calls.walk(leaf, {SPINE}, {DEPTH})
        shallow()
main()
"""


@pytest.mark.further
@pytest.mark.parametrize("options", [(), ("--c-calls",)])
@pytest.mark.parametrize("mode", MODES)
def test_each_place_of_a_deep_native_stack(
    pyhybrid: Callable[..., Run], mode: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """Paths below one Python function are mostly the same: each has its calls all the same."""
    build_extension(tmp_path, "deep_calls")
    environment = {"PYTHONPATH": str(tmp_path)}
    run = pyhybrid("-q", "--mode", mode, *options, "-c", DEEP, env=environment)
    profile = run.profile()
    check_exact(profile)
    nodes, frames = profile.nodes, profile.frames
    found: Counter[tuple[str, ...]] = Counter()
    for row in profile.exact:
        names, at = [], row.node
        while at:
            names.append(frames[nodes.frame[at]].name)
            at = nodes.parent[at]
        if names[0] == "leaf":
            turns = tuple(name for name in reversed(names) if name in ("left", "right"))
            caller = next(name for name in names if name in ("main", "shallow"))
            found[(caller, str(names.count("spine")), *turns)] += row.calls
    expected = {
        (caller, str(n + 1), *turns): TIMES
        for caller, n, depth in (("main", SPINE, DEPTH), ("shallow", 0, 1))
        for levels in range(depth + 1)
        for turns in itertools.product(("left", "right"), repeat=levels)
    }
    assert found == expected


@pytest.mark.further
def test_what_a_call_from_there_takes(tmp_path: Path) -> None:
    """Not each frame of the stack is unwound anew: that would be hundreds of instructions each."""
    build_extension(tmp_path, "deep_calls")
    build_extension(tmp_path, "count_instructions", f"-I{TARGETS.parent / 'c'}")
    (library,) = tmp_path.glob("count_instructions*")
    program = f"""
import ctypes, deep_calls, pyhybrid
count = ctypes.PyDLL({str(library)!r}).count_instructions
count.argtypes = [ctypes.py_object]
def leaf():
    pass
def walk():
    deep_calls.walk(leaf, {SPINE}, 1)
def counted():
    return min(count(walk) for _ in range(3))  # the first time its paths are new
bare = counted()
with pyhybrid.Profiler(mode="trace", formats=["folded"]):
    traced = counted()
print((traced - bare) / 3)
"""
    command = [sys.executable, "-P", "-c", program]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert 50 < float(done.stdout) < 10_000
