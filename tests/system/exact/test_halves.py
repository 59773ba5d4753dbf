"""What the events time and what the samples say of the same functions agree."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import pytest
from exact_support import check_exact, check_halves, of_function
from support import TARGETS, Run, check_invariants

from pyhybrid.views.call_tree.hot_paths import Hot

pytestmark = pytest.mark.alone

FUNCTIONS = ("third", "sleeper", "rest")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_shares_by_the_wall_clock(pyhybrid: Callable[..., Run], seed: int) -> None:
    options = ("--imports", "--clock", "wall", "--hz", 997, "--format", "folded")
    run = pyhybrid(*options, TARGETS / "shares.py", 5, seed)
    profile = run.profile()
    check_invariants(profile)
    check_exact(profile)
    check_halves(profile)
    frames = {f.name: f.id for f in profile.frames.values() if f.name in FUNCTIONS}
    sampled = {each.frame: each.python_ns for each in Hot(profile).functions()}
    exact = {name: sum(r.self_ns for r in of_function(profile, name)) for name in FUNCTIONS}
    whole = sum(sampled[frame] for frame in frames.values())
    threads = profile.threads.values()
    # A sample that comes late stands for many periods.
    n = whole * sum(t.recorded for t in threads) / sum(t.recorded_weight_ns for t in threads)
    # A sleeper that waits for a processor seems to sleep on, until it runs (sleep_detection.c).
    delayed = int(run.result.stdout) / sum(exact.values())
    assert whole > 3e9 and n > 800
    for name in FUNCTIONS:
        share = exact[name] / sum(exact.values())
        seen = sampled[frames[name]] / whole
        # Turns are random, so each sample is nearly independent of the one before.
        bound = 4.5 * sqrt(share * (1 - share) / n) + delayed
        assert abs(seen - share) < bound, (name, share, seen, n, delayed)
