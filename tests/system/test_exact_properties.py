"""The exact tree of random programs is the one that they have on paper (random_programs.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from exact_support import check_exact
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from random_programs import Model, Program, Truth, programs, source
from support import PATIENCE_S

from pyhybrid.profile_file.profile import Profile
from pyhybrid.profile_file.tables import Frame

pytestmark = [pytest.mark.version, pytest.mark.once]

EXAMPLES, FEW = 50, 12  # each a run of the profiler

# `throw` through a chain of `yield from`: several times in a row, and with an inner one that ends
# by a value, by returning, by an exception.
THROWN_THROUGH = Program(
    [[("throws", 1, "E0"), ("call", "plain", 0)]],
    [
        [("catch", "E0")],
        [("from", 2), ("call", "plain", 0)],
        [("try", [("yield",)], "E0", [("from", 2)]), ("yield",), ("from", 0)],
    ],
)
# The same through regions: of one generator two, one in the other, and of the next one in turn.
THROWN_THROUGH_REGIONS = Program(
    [[("throws", 0, "E0"), ("call", "plain", 0)]],
    [
        [("region", "r0", [("region", "r1", [("from", 1), ("yield",)]), ("yield",)])],
        [("try", [("region", "r0", [("from", 2), ("yield",)])], "E0", [("from", 2)])],
        [("catch", "E0"), ("region", "r1", [("catch", "E0")]), ("call", "plain", 0)],
    ],
)
# A generator yields while it is destroyed, in a region; the next one takes its place in memory.
YIELDS_WHILE_DESTROYED = Program(
    [[("peek", 0)]],
    [[("finally", [("yield",)], [("region", "r0", [("catch", "E0")])])]],
)


def measured(profile: Profile, file: str) -> dict[tuple[str, ...], Truth]:
    """Counts by path of the program's functions and regions, those of all threads added up."""
    frames, nodes = profile.frames, profile.nodes

    def is_ours(frame: Frame) -> bool:
        in_file = frame.kind == "python" and frame.file == file and frame.name != "<module>"
        return in_file or frame.kind == "region"

    paths: list[tuple[str, ...]] = [()]
    for parent, number in zip(nodes.parent[1:], nodes.frame[1:], strict=True):
        frame = frames[number]
        paths.append((*paths[parent], frame.name) if is_ours(frame) else paths[parent])
    found: dict[tuple[str, ...], Truth] = {}
    for row in profile.exact:
        frame = frames[nodes.frame[row.node]]
        if is_ours(frame):
            of = found.setdefault(paths[row.node], Truth())
            of.calls += row.calls
            of.resumes += row.resumes
            of.raised += row.raised
    return found


def differences(
    true: dict[tuple[str, ...], Truth], found: dict[tuple[str, ...], Truth]
) -> list[str]:
    nothing = Truth()
    return [
        f"{' > '.join(path)}: {true.get(path, nothing)}, found {found.get(path, nothing)}"
        for path in sorted(true.keys() | found.keys())
        if true.get(path, nothing) != found.get(path, nothing)
    ]


ALL = "hybrid --c-calls"
SLOW = [
    pytest.param(options, EXAMPLES, marks=pytest.mark.slow)
    for options in ("trace", "hybrid", "trace --c-calls", ALL)
]


@pytest.mark.parametrize(("options", "examples"), [*SLOW, (ALL, FEW)])
def test_random_programs(options: str, examples: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    command = [sys.executable, "-P", "-m", "pyhybrid", "-q", "--format", "pstats", "--mode"]
    command += options.split()

    @settings(
        max_examples=examples,
        derandomize=os.environ.get("CI") == "true",
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @example([THROWN_THROUGH, THROWN_THROUGH_REGIONS, YIELDS_WHILE_DESTROYED])
    @given(st.lists(programs(), min_size=1, max_size=30))
    def check(batch: list[Program]) -> None:
        model = Model()
        for number, program in enumerate(batch):
            model.run(number, program)
        file.write_text(source(batch))
        run = subprocess.run(
            [*command, file], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert run.returncode == 0, run.stderr
        assert json.loads((tmp_path / "log.json").read_text()) == model.log, "the model is wrong"
        with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
            check_exact(profile)
            wrong = differences(model.counts, measured(profile, str(file)))
            assert not wrong, "\n".join(wrong)

    check()
