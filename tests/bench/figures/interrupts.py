"""How often a program is interrupted, by engine: on a virtual machine that is what samples cost."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from method import Figure, alternate, bare, profiled, row, run

WORKLOAD = str(Path(__file__).parents[1] / "workloads" / "interrupts.py")
HZ, SECONDS = 999, "3"
ENGINES = "sigtrap", "perf_event", "timer"


def count(folder: Path, engine: str) -> list[float]:
    """A second of CPU time: timer interrupts, and those by which the kernel calls itself."""
    options = ["--mode", "sample", "--hz", str(HZ), "--engine", engine, "--format", "folded"]
    sampled = profiled(WORKLOAD, SECONDS, options=options)
    out = run(sampled if engine else bare(WORKLOAD, SECONDS), folder).stdout
    cpu_s, timer, own = json.loads(out.splitlines()[0])
    return [timer / cpu_s, own / cpu_s]


def measure(pairs: int) -> list[Figure]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        sides = [partial(count, Path(name), engine) for engine in ("", *ENGINES)]
        raw = list(alternate(pairs, *sides))
    for i, engine in enumerate(("no profiler", *ENGINES)):
        rows.append(row(f"{engine}: timer interrupts", "/s", [each[i][0] for each in raw]))
        rows.append(row(f"{engine}: the kernel to itself", "/s", [each[i][1] for each in raw]))
    title = f"Interrupts a second of CPU time, two busy threads, {HZ} Hz"
    return [Figure("interrupts", title, rows, raw)]
