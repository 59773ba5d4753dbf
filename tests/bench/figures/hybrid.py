"""Both halves at once: beside the sampled half alone, how deep, how large, how well they agree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, alternate, bare, profiled, row, run

from figures.training import TRAIN, WORKLOAD, times

PATHS = str(Path(__file__).parents[1] / "workloads" / "paths.py")


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return [training(Path(folder), pairs), tree(Path(folder), pairs)]


def training(folder: Path, pairs: int) -> Figure:
    def side(mode: str) -> dict[str, float]:
        options = ["--mode", mode, "--hz", "999"]
        return times(run(profiled(WORKLOAD, TRAIN, options=options), folder))

    rounds = list(alternate(pairs, lambda: side("sample"), lambda: side("hybrid")))
    rows = [
        row(f"{name} beyond sample mode's", "x", [b[key] / a[key] - 1 for a, b in rounds], reach)
        for name, key, reach in (
            ("program, process CPU time", "program_cpu_s", "<= 0.02"),
            ("program, wall time", "program_wall_s", "<= 0.02"),
        )
    ]
    raw = [{"sample": a, "hybrid": b} for a, b in rounds]
    return Figure("hybrid", "examples/train.py in hybrid mode at 999 Hz", rows, raw)


def tree(folder: Path, pairs: int) -> Figure:
    rounds = [
        {
            name: json.loads(run(bare(PATHS, name), folder).stdout)
            for name in ("nodes", "depth", "halves")
        }
        for _ in range(min(pairs, 5))
    ]
    apart = [abs(r["halves"]["exact"] - r["halves"]["sampled"]) for r in rounds]
    rows = [
        row(
            "memory for a path, at 1,000,000",
            "bytes",
            [r["nodes"]["bytes"] for r in rounds],
            "<= 160",
        ),
        row(
            "handler, below 490 calls from C to Python",
            "µs",
            [r["depth"]["490"] for r in rounds],
            "<= 1",
        ),
        row("handler, below 1 such call", "µs", [r["depth"]["1"] for r in rounds]),
        row("exact and sampled share of a function, apart", "", apart, "<= 0.01"),
        row("samples behind that", "", [r["halves"]["samples"] for r in rounds]),
    ]
    return Figure("tree", "The tree of both halves", rows, rounds)
