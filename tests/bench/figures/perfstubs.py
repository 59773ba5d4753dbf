"""What PerfStubs costs: a Python call that a tool hears of, and a region of native code."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, compiled, row, run

WORKLOADS = Path(__file__).parents[1] / "workloads"


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        libraries = [
            compiled(WORKLOADS / f"{each}.c", folder) for each in ("empty_tool", "region_loop")
        ]
        command = bare(str(WORKLOADS / "timers.py"), str(pairs), *map(str, libraries))
        rounds = json.loads(run(command, folder).stdout)
    told = [r["told"] - r["counted"] for r in rounds]
    rows = [
        row("--emit perfstubs, an empty tool: more than a counted call", "ns", told, "<= 12"),
        row(
            "a region of native code, pushed and popped",
            "ns",
            [r["region"] for r in rounds],
            "<= 150",
        ),
        row(
            "the same without the GIL",
            "ns",
            [r["region, without the GIL"] for r in rounds],
            "<= 150",
        ),
        row("the same without a profiler", "ns", [r["region, no profiler"] for r in rounds]),
    ]
    return [Figure("perfstubs", "PerfStubs, and regions of native code", rows, rounds)]
