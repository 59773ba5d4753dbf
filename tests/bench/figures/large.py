"""What much of one kind costs: distinct stacks, samples, functions of a JIT compiler.

The inputs are written by hand; each round reads them in a process of its own.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from large_inputs import HZ, many_functions, many_samples, many_stacks
from method import Figure, bare, row, run

READ_LARGE = str(Path(__file__).parents[1] / "workloads" / "read_large.py")
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
    return [Figure("large", "Large inputs", rows, rounds)]
