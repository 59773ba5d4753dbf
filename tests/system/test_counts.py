"""Calls and callers equal cProfile's, function by function, on programs of different kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES, check_exact, counts_below
from support import TARGETS, Run

pytestmark = [pytest.mark.version, pytest.mark.once]

PROGRAMS = sorted((TARGETS / "counted").glob("*.py"))


def counted_by_cprofile(program: Path, folder: Path) -> dict[str, tuple[int, dict[str, int]]]:
    file = folder / "cprofile.json"
    subprocess.run([sys.executable, "-P", TARGETS / "counted.py", program, file], check=True)
    return {key: (calls, callers) for key, calls, callers in json.loads(file.read_text())}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_calls_and_callers(
    pyhybrid: Callable[..., Run], program: Path, mode: str, tmp_path: Path
) -> None:
    run = pyhybrid("--mode", mode, "--format", "folded", TARGETS / "counted.py", program)
    profile = run.profile()
    check_exact(profile)
    ours = counts_below(profile, f"{program}:1:<module>")
    theirs = counted_by_cprofile(program, tmp_path)
    assert len(theirs) > 3
    assert {key: of.calls for key, of in ours.items()} == {k: n for k, (n, _) in theirs.items()}
    assert {key: dict(of.callers) for key, of in ours.items()} == {
        key: callers for key, (_, callers) in theirs.items()
    }
