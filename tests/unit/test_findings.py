"""Findings of hand-made profiles: what no program shows at will."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_profile import PID, example, fake_symbols
from spool_writer import SpoolWriter, pseudo, python

from pyhybrid.assemble.opening import open_profile
from pyhybrid.report.screen import render
from pyhybrid.report.summary import summarize
from pyhybrid.views.findings import findings
from pyhybrid.views.spinning import pool_of


def profile_of(path: Path, broken: int, lost: int) -> str:
    """200 samples, of which so many have a truncated stack, and so many others that were lost."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    spool.code(3, "f", "/w.py", 1)
    whole, half = spool.stack(python(3, 0)), spool.stack(pseudo(1), python(3, 0))
    spool.stacks()
    spool.samples(1, [half] * broken + [whole] * (200 - broken))
    spool.counters(1, 200, 200 + lost, lost=(lost, 0))
    spool.end()
    return str(spool.save(path))


@pytest.mark.parametrize(
    ("broken", "lost", "rules"),
    [
        (0, 0, []),
        (5, 5, []),
        (40, 0, ["broken stacks"]),
        (0, 50, ["lost samples"]),
        (100, 50, ["broken stacks", "lost samples"]),
    ],
)
def test_the_limits_of_sampling(tmp_path: Path, broken: int, lost: int, rules: list[str]) -> None:
    with open_profile(profile_of(tmp_path / "x.part", broken, lost), fake_symbols()) as profile:
        assert [each.rule for each in findings(profile)] == rules
        lines = ["".join(t for t, _ in line) for line in render(summarize(profile, [], []))]
        assert sum(line.startswith("found    ") for line in lines) == len(rules)
        assert all(len(line) <= 100 for line in lines)


def test_of_a_few_samples_nothing_is_said(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert findings(profile) == []


@pytest.mark.parametrize(
    ("library", "symbol", "pool"),
    [
        ("libgomp.so.1", "gomp_team_barrier_wait_end", "OpenMP (libgomp)"),
        ("libgomp-24e2ab19.so.1.0.0", "gomp_barrier_wait_end", "OpenMP (libgomp)"),
        ("libiomp5.so", "__kmp_hyper_barrier_release", "OpenMP (libomp)"),
        ("libscipy_openblas64_-4b78795a.so", "blas_thread_server", "OpenBLAS"),
        ("libgomp.so.1", "GOMP_parallel", None),
        ("libtorch_cpu.so", "gomp_barrier_wait_end", None),
    ],
)
def test_functions_that_spin(library: str, symbol: str, pool: str | None) -> None:
    assert pool_of(library, symbol) == pool
