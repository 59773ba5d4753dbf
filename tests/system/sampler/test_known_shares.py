"""Each path's share of the samples is its share of the CPU time, which the program itself knows:
in Python, in C, in C that Python called that C called, and in the threads of OpenMP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest
from support import TARGETS, Run, check_invariants, paths

pytestmark = [pytest.mark.engine, pytest.mark.alone]

MARKS = {
    "in_python": ("in_python",),
    "in_c": ("in_c", "spin", "burn"),
    "nested": (
        "nested",
        "call_a",
        "nested.<locals>.outer",
        "call_b",
        "nested.<locals>.inner",
        "burn",
    ),
    "in_threads": ("region._omp_fn.0",),
}


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("parallel") / "parallel.so"
    command = ["gcc", "-O2", "-g", "-fPIC", "-shared", "-fopenmp"]
    subprocess.run([*command, "-o", library, TARGETS / "parallel.c"], check=True)
    return library


def is_on(path: list[str], mark: tuple[str, ...]) -> bool:
    rest = iter(path)
    return all(name in rest for name in mark)


@pytest.mark.parametrize("mode", [pytest.param("sample", marks=pytest.mark.slow), "hybrid"])
def test_shares_by_the_cpu_clock(
    pyhybrid: Callable[..., Run], chain: Path, parallel: Path, mode: str
) -> None:
    options = ("--mode", mode, "--hz", 1999, "--format", "folded")
    env = {"PYTHONPATH": str(chain), "OMP_WAIT_POLICY": "passive"}
    run = pyhybrid(*options, TARGETS / "known_shares.py", 5, 1, parallel, env=env)
    profile = run.profile()
    check_invariants(profile)
    known = json.loads(run.result.stdout.splitlines()[-1])
    seen = dict.fromkeys(MARKS, 0)
    n = 0
    for (samples, _, names), row in zip(paths(profile), profile.sampled, strict=True):
        on = [name for name, mark in MARKS.items() if is_on(names, mark)]
        assert len(on) <= 1, names
        if on:
            seen[on[0]] += row.weight_ns
            n += samples
    print(n, seen, known)
    for name in MARKS:
        share = known[name] / sum(known.values())
        # Sigma of random samples: those of a clock that ticks evenly scatter less.
        off = abs(seen[name] / sum(seen.values()) - share)
        assert off < 4.5 * sqrt(share * (1 - share) / n), (name, share, off, n)
