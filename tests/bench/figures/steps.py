"""Steps of examples/train.py with each engine, without one, and in hybrid mode, in one process:
less noise than whole runs have (training.py, hybrid.py), so the engines can be compared."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, row, run

WORKLOAD = str(Path(__file__).parents[1] / "workloads" / "steps.py")
HZ = 999
ROUNDS = 2  # for each pair that is asked for: they are short


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        done = run(bare(WORKLOAD, str(ROUNDS * pairs), str(HZ)), Path(folder))
    raw = json.loads(done.stdout.splitlines()[-1])
    what = "process CPU time", "wall time"

    def ratio(side: str, base: str, key: int) -> list[float]:
        return [each[side][key] / each[base][key] for each in raw]

    rows = [
        row(f"{side}, {what[key]}", "x", ratio(side, "off", key))
        for side in ("sigtrap", "perf_event", "timer")
        for key in (0, 1)
    ]
    rows += [
        row(
            f"{side}, 64 threads alive, {what[key]}",
            "x",
            ratio(f"{side}, 64 threads", "off, 64 threads", key),
            "<= 1.05",
        )
        for side in ("sigtrap", "perf_event")
        for key in (0, 1)
    ]
    rows += [
        row(f"frames of the kernel over none, {what[key]}", "x", ratio("sigtrap", "no kernel", key))
        for key in (0, 1)
    ]
    rows += [
        row(
            f"hybrid over sample mode, {what[key]}", "x", ratio("hybrid", "sigtrap", key), "<= 1.02"
        )
        for key in (0, 1)
    ]
    return [Figure("steps", f"Steps of examples/train.py in one process at {HZ} Hz", rows, raw)]
