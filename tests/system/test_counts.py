"""Calls and callers equal cProfile's, function by function, on programs of different kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES, check_exact, counts_below
from support import TARGETS, Run

from pyhybrid.profile_file.profile import Profile
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
