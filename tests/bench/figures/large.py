"""What much of one kind costs: distinct stacks, samples, functions of a JIT compiler.

The inputs are written by hand; each round reads them in a process of its own.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, row, run
from spool_writer import SpoolWriter, native, python

READ_LARGE = str(Path(__file__).parents[1] / "workloads" / "read_large.py")
STACKS, HOUR_S, FUNCTIONS = 195_000, 3600, 100_000
HZ = 1000


def many_stacks(path: Path) -> str:
    """One sample of each."""
    writer = SpoolWriter()
    writer.meta()
    writer.module(1, "[vdso]", 0x7F0000000000)
    writer.thread(1, 1, "python")
    for code in range(1, 1001):
        writer.code(code, f"function_{code}", f"/src/file_{code % 50}.py", code)
    leaves = [
        writer.stack(python(1, 1), python(1 + i // 200, i % 64), native(1, i % 5000))
        for i in range(STACKS)
    ]
    writer.stacks()
    for second in range(STACKS // HZ):
        taken = leaves[second * HZ : (second + 1) * HZ]
        writer.samples(1, taken, first_ns=second * 10**9)
    return writer.save(path)


def many_samples(path: Path) -> str:
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python")
    stack = writer.stack(python(1, 1))
    writer.stacks()
    for second in range(HOUR_S):
        writer.samples(1, [stack] * HZ, first_ns=second * 10**9)
    return writer.save(path)


def many_functions(path: Path, size: int) -> str:
    """A perf map of functions 64 bytes apart, each of `size` bytes."""
    lines = (f"{0x7E0000000000 + 64 * i:x} {size:x} some::name_{i}\n" for i in range(FUNCTIONS))
    path.write_text("".join(lines))
    return str(path)


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = {
            "stacks": ("finish", many_stacks(folder / "stacks.part")),
            "samples": ("read", many_samples(folder / "samples.part")),
            "functions": ("jit", many_functions(folder / "apart.map", 64)),
            "overlapping": ("jit", many_functions(folder / "overlapping.map", 100)),
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
