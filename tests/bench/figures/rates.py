"""From 100 Hz to 10 kHz, with 1 to 64 threads: samples per CPU second over those asked for, all
busy threads together; with timers, which give several periods to a sample, the weights over CPU
time.

10 kHz costs more than a fifth of a core on a virtual machine, so it is lowered: what is compared
with is the rate that the profile says.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path

from method import Figure, profiled, row, run

BUSY = str(Path(__file__).parents[1] / "workloads" / "busy.py")
CPU_S, EACH_S, PERIODS = 6.0, 1.0, 20  # of all threads, of each, periods of each, at least
PIECE_MB = 4
THREADS = (1, 4, 16, 64)
RATES = (100, 999, 10_000)


def one_round(folder: Path, engine: str, threads: int, hz: int) -> dict[str, float]:
    """Samples over whole periods of each thread, as a perfect clock has; weights over CPU time."""
    options = ["--mode", "sample", "--hz", str(hz), "--engine", engine, "--format", "folded"]
    seconds = max(CPU_S / threads, EACH_S, PERIODS / hz)
    arguments = (str(threads), str(seconds), str(PIECE_MB))
    cpu_s = dict(json.loads(run(profiled(BUSY, *arguments, options=options), folder).stdout))
    with contextlib.closing(sqlite3.connect(folder / "out.pyhybrid")) as profile:
        sql = "select tid, recorded, recorded_weight_ns from thread"
        found = {tid: values for tid, *values in profile.execute(sql) if tid in cpu_s}
        ((reached,),) = profile.execute("select value from meta where key = 'hz'")
    hz_set = float(reached)
    periods = sum(int(ran * hz_set) for ran in cpu_s.values())
    return {
        "hz": hz_set,
        "samples": sum(n for n, _ in found.values()) / periods,
        "weight": sum(ns for _, ns in found.values()) / 1e9 / sum(cpu_s.values()),
    }


def measure(pairs: int) -> list[Figure]:
    rows, raw = [], []
    with tempfile.TemporaryDirectory() as name:
        for engine in ("sigtrap", "perf_event", "timer"):
            for hz in RATES:
                for threads in THREADS:
                    taken = [
                        one_round(Path(name), engine, threads, hz) for _ in range(min(pairs, 5))
                    ]
                    raw.append({"engine": engine, "threads": threads, "asked": hz, "rounds": taken})
                    what = f"{engine}, {hz} Hz asked, {threads} thread{'s' * (threads > 1)}"
                    if engine == "timer":
                        off = [abs(each["weight"] - 1) for each in taken]
                        rows.append(row(f"{what}: weight off by", "", off, "<= 0.01"))
                    else:
                        rate = [each["samples"] for each in taken]
                        rows.append(row(what, "x", rate, ">= 0.985"))
                    if hz == RATES[-1]:
                        set_to = [each["hz"] for each in taken]
                        rows.append(row(f"{what}: the rate", "Hz", set_to))
    return [Figure("rates", "Samples per CPU second over those asked for", rows, raw)]
