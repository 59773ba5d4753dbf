"""Samples per CPU second of each busy thread, over what was asked for, with 1 to 8 threads.

The CPU time is the thread's own reading of its clock, not the profiler's.  A perf event loses some
10 us at each context switch; the weights of the samples make up for it, so they are measured, too,
where threads change places all the time.  With sigtrap the events of threads change places as well:
all threads together are a figure of their own.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
import tempfile
from pathlib import Path

from method import Figure, profiled, row, run

BUSY = str(Path(__file__).parents[1] / "workloads" / "busy.py")
HZ = 999
SECONDS = 2.0
PIECE_MB, SMALL_PIECE_MB = 16, 1  # 10 ms and 0.6 ms of work


def one_round(folder: Path, engine: str, threads: int, piece_mb: int) -> list[tuple[float, float]]:
    """For each busy thread, over HZ: its samples per CPU second, and its weight."""
    options = ["--mode", "sample", "--hz", str(HZ), "--engine", engine, "--format", "folded"]
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
        for engine in ("sigtrap", "perf_event"):
            for threads, piece_mb in (*((n, PIECE_MB) for n in (1, 2, 4, 8)), (8, SMALL_PIECE_MB)):
                rounds = [one_round(Path(name), engine, threads, piece_mb) for _ in range(pairs)]
                raw.append(
                    {"engine": engine, "threads": threads, "piece_mb": piece_mb, "rounds": rounds}
                )
                what = f"{engine}: {threads} busy thread{'s' * (threads > 1)}"
                reach = ">= 0.98"
                if piece_mb == SMALL_PIECE_MB:
                    what, reach = f"{what} that change places every 0.6 ms", ""
                if threads > 1 and engine == "sigtrap":
                    mean = [statistics.mean(each[0] for each in one) for one in rounds]
                    rows.append(row(f"{what}, together", "x", mean, reach))
                worst_one = f"{what}, the worst one" if threads > 1 else what
                rows.append(row(worst_one, "x", worst(rounds, 0), reach))
                if not reach:
                    rows.append(row(f"{worst_one}: weight over CPU time", "x", worst(rounds, 1)))
    return [Figure("rate", f"Samples per CPU second over {HZ} asked for", rows, raw)]
