"""What much of one kind costs: distinct stacks, samples, functions of a JIT compiler, call paths.

The inputs are written by hand, but for the last one, which is a program's; each round reads them in
a process of its own.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from large_inputs import HZ, many_functions, many_samples, many_stacks
from method import Figure, Process, bare, profiled, row, run

from pyhybrid.options.table import FORMATS

WORKLOADS = Path(__file__).parents[1] / "workloads"
READ_LARGE = str(WORKLOADS / "read_large.py")
STACKS, HOUR_S, FUNCTIONS = 195_000, 3600, 100_000


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = {
            "stacks": ("finish", many_stacks(folder / "stacks.part", STACKS, STACKS // HZ)),
            "samples": ("read", many_samples(folder / "samples.part", HOUR_S)),
            "functions": (
                "jit",
                written(folder / "apart.map", many_functions(range(FUNCTIONS), 64)),
            ),
            "overlapping": (
                "jit",
                written(folder / "lap.map", many_functions(range(FUNCTIONS), 100)),
            ),
        }

        def cpu_s(what: str, path: str) -> float:
            return float(json.loads(run(bare(READ_LARGE, what, path), folder).stdout))

        rounds = []
        for i in range(pairs):
            rounds.append({name: cpu_s(*each) for name, each in inputs.items()})
            print(f"\r  {i + 1}/{pairs}", end="\n" if i + 1 == pairs else "", flush=True)

    def seconds(name: str) -> list[float]:
        return [each[name] for each in rounds]

    hour = f"{HOUR_S * HZ / 1e6:.1f} million samples"
    rows = [
        row(f"{STACKS:,} distinct stacks made into a profile", "s", seconds("stacks"), "<= 2"),
        row(f"{hour} read", "s", seconds("samples"), "<= 0.5"),
        row(
            f"a table of {FUNCTIONS:,} functions of a perf map", "s", seconds("functions"), "<= 0.3"
        ),
        row("the same, where they overlap", "s", seconds("overlapping"), "<= 0.3"),
    ]
    return [Figure("large", "Large inputs", rows, rounds), paths(pairs)]


def paths(pairs: int) -> Figure:
    """What becomes of a run of a million call paths, its spool finished again and again."""
    formats = [word for name in FORMATS for word in ("-f", name)]
    open_it = "import pyhybrid; pyhybrid.load('out.pyhybrid')"
    commands = {
        "end": ["-m", "pyhybrid.finish.finish", "--keep", "--summary", *formats, "kept", "out"],
        "report": ["-m", "pyhybrid", "report", "out.pyhybrid"],
        "tree": ["-m", "pyhybrid", "report", "tree", "out.pyhybrid"],
        "pstats": ["-m", "pyhybrid", "export", "-f", "pstats", "out.pyhybrid"],
        "open": ["-c", open_it + ".frames"],
        "nodes": ["-c", open_it + ".nodes"],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = str(WORKLOADS / "million_paths.py")
        run(profiled(str(WORKLOADS / "kept_spool.py"), "kept", program), folder)
        rounds: list[dict[str, Process]] = []
        for i in range(pairs):
            rounds.append({what: run(bare(*words), folder) for what, words in commands.items()})
            print(f"\r  {i + 1}/{pairs}", end="\n" if i + 1 == pairs else "", flush=True)

    def seconds(what: str) -> list[float]:
        return [each[what].cpu_s for each in rounds]

    peaks = [each["end"].peak_mb for each in rounds]
    rows = [
        row("end of the run, all default files and the summary", "s", seconds("end"), "<= 3"),
        row("peak memory of that", "MB", peaks, "<= 300"),
        row("report", "s", seconds("report"), "<= 1.5"),
        row("report tree", "s", seconds("tree"), "<= 1.5"),
        row("export -f pstats", "s", seconds("pstats"), "<= 1.5"),
        row("Profile.open, and the table of functions", "s", seconds("open"), "<= 0.3"),
        row("the same, and the call tree", "s", seconds("nodes")),
    ]
    raw = [{what: [each.cpu_s, each.peak_mb] for what, each in r.items()} for r in rounds]
    return Figure("million", "A million call paths", rows, raw)
