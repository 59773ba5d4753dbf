"""Events of sys.monitoring that C code fires for code without a frame: functions of their own, as
cProfile counts them."""

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
import contextlib
import fires_events

def leaf():
    pass

def outer():
    for _ in range(50):
        fires_events.call(None)
        fires_events.call(leaf)
    with contextlib.suppress(ZeroDivisionError):
        fires_events.call(lambda: 1 / 0)

for _ in range(3):
    outer()
    fires_events.in_thread()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fires_events")
    build_extension(folder, "fires_events", "-pthread")
    return folder


@pytest.mark.first_cases(2)
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
def test_they_are_calls(
    pyhybrid: Callable[..., Run], folder: Path, options: tuple[str, ...]
) -> None:
    environment = {"PYTHONPATH": str(folder)}
    run = pyhybrid(*options, "--format", "folded", "-c", PROGRAM, env=environment)
    profile = run.profile()
    check_exact(profile)
    counts = {profile.frames[at].name: calls for at, calls in function_calls(profile).items()}
    assert (counts["outer"].calls, counts["outer"].seeded) == (3, 0)
    assert (counts["leaf"].calls, counts["leaf"].seeded) == (150, 0)
    if "-t" in options:
        assert "fired" not in counts
        return
    fired = counts["fired"]
    assert (fired.calls, fired.raised, fired.seeded) == (303 + 3, 3, 0)
    assert fired.total_ns >= counts["leaf"].total_ns
    names = {at: frame.name for at, frame in profile.frames.items()}
    callers = {names[at]: tally.calls for at, tally in fired.callers.items() if at}
    assert callers == {"call" if "--c-calls" in options else "outer": 303}  # and none on the thread
    assert [names[at] for at in counts["leaf"].callers] == ["fired"]
