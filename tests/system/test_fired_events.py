"""Events of sys.monitoring that C code fires for code without a frame: they count as nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import check_exact
from support import Run, build_extension

from pyhybrid.views.calls.function_calls import function_calls

pytestmark = [
    pytest.mark.version,
    pytest.mark.skipif(sys.version_info < (3, 13), reason="PyMonitoring_Fire... came with 3.13"),
]

PROGRAM = """
import fires_events

def leaf():
    pass

def outer():
    for _ in range(50):
        fires_events.call(None)
        fires_events.call(leaf)

for _ in range(3):
    outer()
    fires_events.in_thread()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fires_events")
    build_extension(folder, "fires_events", "-pthread")
    return folder


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--mode", "trace"),
        ("--mode", "trace", "--exclude", "nothing"),
        ("--mode", "trace", "--events", "--c-calls"),
        ("--mode", "trace", "--lines", "-t", "outer", "-t", "leaf"),
    ],
)
def test_they_are_no_calls(
    pyhybrid: Callable[..., Run], folder: Path, options: tuple[str, ...]
) -> None:
    environment = {"PYTHONPATH": str(folder)}
    run = pyhybrid(*options, "--format", "folded", "-c", PROGRAM, env=environment)
    profile = run.profile()
    check_exact(profile)
    counts = {profile.frames[at].name: calls for at, calls in function_calls(profile).items()}
    assert (counts["outer"].calls, counts["outer"].seeded) == (3, 0)
    assert (counts["leaf"].calls, counts["leaf"].seeded) == (150, 0)
    assert "fired" not in counts
