"""Samples per CPU second of each busy thread, over what was asked for, with 1 to 8 threads.

The CPU time is the thread's own reading of its clock, not the profiler's.  A perf event loses some
10 us at each context switch; the weights of the samples make up for it, so they are measured, too,
where threads change places all the time.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path

from method import Figure, profiled, row, run

BUSY = str(Path(__file__).parents[1] / "workloads" / "busy.py")
HZ = 999
SECONDS = 2.0
PIECE_MB, SMALL_PIECE_MB = 16, 1  # 10 ms and 0.6 ms of work


def one_round(folder: Path, threads: int, piece_mb: int) -> list[tuple[float, float]]:
    """For each busy thread, over HZ: its samples per CPU second, and its weight."""
    options = ["--mode", "sample", "--hz", str(HZ), "--engine", "perf_event", "--format", "folded"]
    arguments = (str(threads), str(SECONDS), str(piece_mb))
    process = run(profiled(BUSY, *arguments, options=options), folder)
    cpu_s = dict(json.loads(process.stdout))
    with contextlib.closing(sqlite3.connect(folder / "out.pyhybrid")) as profile:
        sql = "select tid, recorded, recorded_weight_ns from thread"
        counts = {tid: (recorded, weight_ns) for tid, recorded, weight_ns in profile.execute(sql)}
    return [
        (counts[tid][0] / seconds / HZ, counts[tid][1] / 1e9 / seconds)
        for tid, seconds in cpu_s.items()
    ]


def worst(rounds: list[list[tuple[float, float]]], column: int) -> list[float]:
    return [min(thread[column] for thread in threads) for threads in rounds]


def measure(pairs: int) -> list[Figure]:
    rows, raw = [], []
    with tempfile.TemporaryDirectory() as name:
        for threads in (1, 2, 4, 8):
            rounds = [one_round(Path(name), threads, PIECE_MB) for _ in range(pairs)]
            raw.append({"threads": threads, "piece_mb": PIECE_MB, "rounds": rounds})
            what = f"{threads} busy threads, the worst one" if threads > 1 else "1 busy thread"
            rows.append(row(what, "x", worst(rounds, 0), ">= 0.98"))
        rounds = [one_round(Path(name), 8, SMALL_PIECE_MB) for _ in range(pairs)]
        raw.append({"threads": 8, "piece_mb": SMALL_PIECE_MB, "rounds": rounds})
        what = "8 that change places every 0.6 ms, the worst one"
        rows.append(row(what, "x", worst(rounds, 0)))
        rows.append(row(f"{what}: weight over CPU time", "x", worst(rounds, 1)))
    return [Figure("rate", f"Samples per CPU second over {HZ} asked for, perf_event", rows, raw)]
