"""examples/train.py with and without the profiler: slowdown, the handler's time, the end."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, Process, alternate, bare, compiled, profiled, row, run

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
        "collector_s": said["collector_s"],
    }


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        return measure_in(Path(folder), pairs)


def measure_in(folder: Path, pairs: int) -> list[Figure]:
    def with_profiler(engine: str) -> dict[str, float]:
        options = ["--mode", "sample", "--hz", str(HZ), "--engine", engine]
        result = times(run(profiled(WORKLOAD, TRAIN, options=options), folder))
        written = max(path.stat().st_mtime for path in folder.iterdir() if path.name in FILES)
        result["files_s"] = written - result["end_date"]
        report = json.loads(run(profiled("report", "out.pyhybrid", "--json"), folder).stdout)
        handler_ns = report["cost"]["handler_median_ns"]
        handlers_s = handler_ns * report["samples"]["signals"] / 1e9
        return {
            **result,
            "handler_us": handler_ns / 1e3,
            "handlers_share": handlers_s / result["program_cpu_s"],
            "collector_share": result["collector_s"] / result["program_cpu_s"],
        }

    def without() -> dict[str, float]:
        return times(run(bare(WORKLOAD, TRAIN), folder))

    def with_sigtrap() -> dict[str, float]:
        return with_profiler("sigtrap")

    def with_perf_event() -> dict[str, float]:
        return with_profiler("perf_event")

    def with_timer() -> dict[str, float]:
        return with_profiler("timer")

    def with_empty_handler() -> dict[str, float]:
        env = {"LD_PRELOAD": str(library), "PERIOD_NS": str(1_000_000_000 // HZ)}
        return times(run(bare(WORKLOAD, TRAIN), folder, env))

    library = compiled(WORKLOADS / "empty_handler.c", folder)
    sides = without, with_sigtrap, with_perf_event, with_empty_handler, with_timer
    rounds = list(alternate(pairs, *sides))

    def ratio(side: int, key: str) -> list[float]:
        return [each[side][key] / each[0][key] for each in rounds]

    names = "bare", "sigtrap", "perf_event", "empty_handler", "timer"
    raw = [dict(zip(names, each, strict=True)) for each in rounds]
    cpu, wall = "process CPU time", "wall time"
    slowdown = Figure(
        "slowdown",
        f"Slowdown of examples/train.py at {HZ} Hz",
        [
            row(f"program, {cpu}", "x", ratio(1, "program_cpu_s"), "<= 1.025"),
            row(f"program, {wall}", "x", ratio(1, "program_wall_s"), "<= 1.025"),
            row(f"program with perf_event, {cpu}", "x", ratio(2, "program_cpu_s"), "<= 1.04"),
            row(f"program with perf_event, {wall}", "x", ratio(2, "program_wall_s"), "<= 1.04"),
            row(f"perf_event with an empty handler, {cpu}", "x", ratio(3, "program_cpu_s")),
            row(f"perf_event with an empty handler, {wall}", "x", ratio(3, "program_wall_s")),
            row(f"program with timers, {cpu}", "x", ratio(4, "program_cpu_s"), "<= 1.025"),
            row(f"program with timers, {wall}", "x", ratio(4, "program_wall_s"), "<= 1.025"),
            row(f"whole command, {cpu}", "x", ratio(1, "command_cpu_s")),
            row(f"whole command, {wall}", "x", ratio(1, "command_wall_s")),
        ],
        raw,
    )

    def percent(side: int, key: str) -> list[float]:
        return [100 * each[side][key] for each in rounds]

    shares = [
        row(f"{engine}: {what}, of the CPU time", "%", percent(side, key))
        for side, engine in ((1, "sigtrap"), (2, "perf_event"), (4, "timers"))
        for what, key in (("handlers", "handlers_share"), ("the collector", "collector_share"))
    ]
    handler = Figure(
        "handler",
        "The signal handler in live training",
        [
            row("median of a run", "µs", [each[1]["handler_us"] for each in rounds], "<= 6"),
            row("with perf_event", "µs", [each[2]["handler_us"] for each in rounds], "<= 6"),
            *shares,
        ],
        raw,
    )
    finish = Figure(
        "finish",
        "After the program's last line",
        [
            row("all files written", "s", [each[1]["files_s"] for each in rounds], "<= 1.5"),
            row(
                "the same, from when the bare program has exited",
                "s",
                [each[1]["files_s"] - each[0]["exit_s"] for each in rounds],
                "<= 1.5",
            ),
            row("command returns", "s", [each[1]["exit_s"] for each in rounds]),
            row(
                "bare command returns, for comparison", "s", [each[0]["exit_s"] for each in rounds]
            ),
        ],
        raw,
    )
    return [slowdown, handler, finish]
