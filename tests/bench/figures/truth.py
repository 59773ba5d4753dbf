"""Shares of CPU time that a program knows of itself, beside those of 100,000 samples, by us and by
`perf record`: turns of random length in Python, in C, in C below Python below C, and in OpenMP."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

from method import Figure, bare, profiled, row, run

TARGETS = Path(__file__).parents[2] / "targets"
PROGRAM = str(TARGETS / "known_shares.py")
CPU_S = "40"
HZ, PERF_HZ = "3000", "999"  # perf copies a piece of the stack for each sample
IN_C, IN_THREADS = "burn", "region._omp_fn.0"  # the rest of the known time: Python


def build(folder: Path) -> dict[str, str]:
    """The environment of the program."""
    gcc = ["gcc", "-O2", "-g", "-fPIC", "-shared"]
    extension = folder / f"chain{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([*gcc, include, "-o", extension, TARGETS / "chain.c"], check=True)
    library = folder / "parallel.so"
    subprocess.run([*gcc, "-fopenmp", "-o", library, TARGETS / "parallel.c"], check=True)
    return {"PYTHONPATH": str(folder), "OMP_WAIT_POLICY": "passive"}


def shares(parts: dict[str, float]) -> dict[str, float]:
    return {name: part / sum(parts.values()) for name, part in parts.items()}


def by_function(known: dict[str, int]) -> dict[str, float]:
    """What can be told without Python's frames."""
    in_c = known["in_c"] + known["nested"]
    return shares({"python": known["in_python"], "c": in_c, "threads": known["in_threads"]})


def ours(folder: Path, env: dict[str, str], seed: int) -> dict[str, float]:
    options = ["--mode", "sample", "--hz", HZ, "--format", "folded"]
    program = profiled(PROGRAM, CPU_S, str(seed), str(folder / "parallel.so"), options=options)
    known = json.loads(run(program, folder, env).stdout.splitlines()[-1])
    seen: Counter[str] = Counter(dict.fromkeys(known, 0))
    for line in (folder / "out.folded").read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        names = {frame.split(" (")[0] for frame in stack.split(";")}
        for name in known:
            if (IN_THREADS if name == "in_threads" else name) in names:
                seen[name] += int(n)
    true, found = shares(known), shares(seen)
    return {
        "periods": seen.total(),
        "off": max(abs(found[name] - true[name]) for name in known),
    }


def by_perf(folder: Path, env: dict[str, str], seed: int) -> dict[str, float]:
    """With call chains: to read the clock is the kernel's or the vdso's code."""
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", PERF_HZ, "-o", "perf.own"]
    command += ["--call-graph", "dwarf,1024", "--"]
    program = bare(PROGRAM, CPU_S, str(seed), str(folder / "parallel.so"))
    done = run([*command, *program], folder, env)
    known = by_function(json.loads(done.stdout.splitlines()[-1]))
    script = ["perf", "script", "-i", "perf.own", "-F", "comm,ip,sym"]
    seen = dict.fromkeys(known, 0.0)
    for chain in run(script, folder).stdout.split("\n\n"):
        symbols = {line.split()[-1] for line in chain.splitlines()[1:] if line.split()}
        if symbols:
            where = {"threads": IN_THREADS in symbols, "c": IN_C in symbols, "python": True}
            seen[next(name for name, here in where.items() if here)] += 1
    found = shares(seen)
    return {
        "samples": sum(seen.values()),
        "off": max(abs(found[name] - known[name]) for name in known),
    }


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = build(folder)
        rounds = [
            {"ours": ours(folder, env, seed), "perf": by_perf(folder, env, seed)}
            for seed in range(min(pairs, 5))
        ]
    rows = [
        row(
            "a share, off by at most",
            "",
            [each["ours"]["off"] for each in rounds],
            "<= 0.01",
        ),
        row("sampling periods behind that", "", [each["ours"]["periods"] for each in rounds]),
        row("perf record, off by at most", "", [each["perf"]["off"] for each in rounds]),
        row("samples behind that of perf", "", [each["perf"]["samples"] for each in rounds]),
    ]
    return [Figure("truth", "Known shares of CPU time", rows, rounds)]
