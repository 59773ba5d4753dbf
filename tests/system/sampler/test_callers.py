"""On sampled paths each Python function has its line, those further out the line of their call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import sqrt

import pytest
from exact_support import check_exact
from support import (
    TARGETS,
    Run,
    check_invariants,
    long_enough,
    python_frames,
    share_with_line,
)

pytestmark = pytest.mark.version

PROGRAM = TARGETS / "callers.py"
LINES = [line.strip() for line in PROGRAM.read_text().splitlines()]
MODES = {
    "sample": ("--mode", "sample"),
    "hybrid": (),
    "c_calls": ("--c-calls",),
    "selected": ("-t", "work", "-t", "two", "-t", "consume"),
}


# `c_calls` has all that `hybrid` has.
FEW = [
    pytest.param(mode, marks=pytest.mark.slow) if mode in ("hybrid", "selected") else mode
    for mode in MODES
]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", FEW)
def test_callers_are_on_the_line_of_their_call(pyhybrid: Callable[..., Run], mode: str) -> None:
    options = (*MODES[mode], "--hz", 3999, "--format", "folded")
    profile = pyhybrid(*options, PROGRAM, long_enough(1, 13)).profile()
    check_invariants(profile)
    if mode != "sample":
        check_exact(profile)
    assert share_with_line(profile) > 0.99
    on_line: Counter[tuple[str, str]] = Counter()
    for row in profile.sampled:
        callee = ""
        for name, file, line in python_frames(profile, row.stack):
            is_own = file == str(PROGRAM)
            if is_own and line:  # instructions that the compiler adds have none
                text = LINES[line - 1]
                assert callee in text, (name, line, callee)
                if callee:
                    on_line[name, text] += row.samples
            callee = name if is_own else ""
    heavy, light = on_line["two", "work(3 * n)"], on_line["two", "work(n)"]
    assert heavy > 300
    off = abs(heavy / (heavy + light) - 0.75)
    assert off < 4.5 * sqrt(0.75 * 0.25 / (heavy + light)), (heavy, light)
    called = {
        ("down", "left = down(depth - 1, n)"),
        ("down", "return left + down(depth - 1, n)"),
        ("down", "work(n)"),
        ("inner", "yield work(n)"),
        ("outer", "yield from inner(n)"),
        ("consume", "for _ in outer(n):"),
        ("consume", "work(n)"),
        ("steps", "await step(n)"),
        ("from_c", "list(map(work, [n, n]))"),
        ("from_c", "return reduce(lambda_like, [n, n, n])"),
        ("in_region", "two(n)"),
        ("in_region", "work(n)"),
        ("everything", "in_region(1000)"),
    }
    assert called <= on_line.keys()
