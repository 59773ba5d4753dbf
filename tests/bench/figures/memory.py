"""An hour at 10 kHz, simulated for the drain thread: does its memory grow?"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from method import Figure, row, run

ROOT = Path(__file__).parents[3]
WORKLOAD = ROOT / "tests" / "bench" / "workloads" / "hour.c"
ROOMS = ("base", "unwind", "pyframes", "trace", "record")
# What needs CPython, or a program's code objects.
LEFT_OUT = {"pyframe.c", "pyframe_calibrate.c", "thread_state.c", "join.c", "records.c"}


def build(folder: Path) -> str:
    program = str(folder / "hour")
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fno-strict-aliasing"]
    folders = [ROOT / "src" / room for room in ROOMS]
    flags += [f"-I{folder}" for folder in folders]
    found = [path for folder in folders for path in sorted(folder.glob("*.c"))]
    sources = [str(path) for path in found if path.name not in LEFT_OUT]
    subprocess.run(["gcc", *flags, "-o", program, str(WORKLOAD), *sources], check=True)
    return program


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        rounds = []
        for _ in range(min(pairs, 5)):
            kb = json.loads(run([program, "out.part"], folder).stdout)
            rounds.append({"kb": kb, "file": (folder / "out.part").stat().st_size})
    rows = [
        row(
            "resident after an hour over after a minute",
            "x",
            [r["kb"][-1] / r["kb"][0] for r in rounds],
            "<= 1.01",
        ),
        row("resident after an hour", "MB", [r["kb"][-1] / 1024 for r in rounds]),
        row("the file", "MB", [r["file"] / 2**20 for r in rounds]),
    ]
    return [Figure("memory", "An hour of a thread at 10 kHz, simulated", rows, rounds)]
