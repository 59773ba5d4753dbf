"""examples/train.py with and without the profiler: slowdown, the handler's time, the end."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from method import Figure, Process, alternate, bare, profiled, row, run

ROOT = Path(__file__).parents[3]
TRAIN = str(ROOT / "examples" / "train.py")
WORKLOADS = Path(__file__).parents[1] / "workloads"
WORKLOAD = str(WORKLOADS / "timed.py")
HZ = 999
FILES = ("out.pyhybrid", "out.folded", "perf.data")


def times(process: Process) -> dict[str, float]:
    """Of the program itself, to its last line (workloads/timed.py), and of the whole command."""
    said = json.loads(process.stdout.splitlines()[-1])
    return {
        "program_cpu_s": said["cpu_s"],
        "program_wall_s": said["end"] - process.started,
        "command_cpu_s": process.cpu_s,
        "command_wall_s": process.ended - process.started,
        "exit_s": process.ended - said["end"],
        "end_date": said["end_date"],
    }


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return measure_in(Path(folder), pairs)


def measure_in(folder: Path, pairs: int) -> list[Figure]:
    options = ["--mode", "sample", "--hz", str(HZ), "--engine", "perf_event"]

    def with_profiler() -> dict[str, float]:
        result = times(run(profiled(WORKLOAD, TRAIN, options=options), folder))
        written = max(path.stat().st_mtime for path in folder.iterdir() if path.name in FILES)
        result["files_s"] = written - result["end_date"]
        report = json.loads(run(profiled("report", "out.pyhybrid", "--json"), folder).stdout)
        return {**result, "handler_us": report["handler_median_ns"] / 1e3}

    def without() -> dict[str, float]:
        return times(run(bare(WORKLOAD, TRAIN), folder))

    def with_empty_handler() -> dict[str, float]:
        env = {"LD_PRELOAD": str(library), "PERIOD_NS": str(1_000_000_000 // HZ)}
        return times(run(bare(WORKLOAD, TRAIN), folder, env))

    library = folder / "empty_handler.so"
    source = WORKLOADS / "empty_handler.c"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    rounds = list(alternate(pairs, without, with_profiler, with_empty_handler))

    def ratio(key: str) -> list[float]:
        return [b[key] / a[key] for a, b, _ in rounds]

    def floor(key: str) -> list[float]:
        return [c[key] / a[key] for a, _, c in rounds]

    raw = [{"bare": a, "profiled": b, "empty_handler": c} for a, b, c in rounds]
    slowdown = Figure(
        "slowdown",
        f"Slowdown of examples/train.py at {HZ} Hz, perf_event",
        [
            row("program, process CPU time", "x", ratio("program_cpu_s"), "<= 1.04"),
            row("program, wall time", "x", ratio("program_wall_s"), "<= 1.04"),
            row("the clock with an empty handler, process CPU time", "x", floor("program_cpu_s")),
            row("the clock with an empty handler, wall time", "x", floor("program_wall_s")),
            row("whole command, process CPU time", "x", ratio("command_cpu_s")),
            row("whole command, wall time", "x", ratio("command_wall_s")),
        ],
        raw,
    )
    handler = Figure(
        "handler",
        "The signal handler in live training",
        [row("median of a run", "µs", [b["handler_us"] for _, b, _ in rounds], "<= 8")],
        raw,
    )
    finish = Figure(
        "finish",
        "After the program's last line",
        [
            row("all files written", "s", [b["files_s"] for _, b, _ in rounds], "<= 1.5"),
            row("command returns", "s", [b["exit_s"] for _, b, _ in rounds]),
            row("bare command returns, for comparison", "s", [a["exit_s"] for a, _, _ in rounds]),
        ],
        raw,
    )
    return [slowdown, handler, finish]
