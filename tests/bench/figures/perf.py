"""perf.data of 100,000 samples, 40 frames deep: how long to write, and for `perf report` to read.

perf's own file is a recording of a C program that is always 40 calls deep (workloads/deep.py).
Ours has the same samples with the same stacks, but that half of the functions are Python's: a
call tree of the same shape, whose cost for `perf report` is the format's alone.
"""

from __future__ import annotations

import gc
import re
import subprocess
import tempfile
import time
from bisect import bisect
from pathlib import Path
from typing import Any

from elf_functions import readelf
from method import Figure, alternate, bare, row, run
from spool_writer import SpoolWriter, native, python

from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.perf.names_map import PerfMap
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.finish.finish import finish
from pyhybrid.tables.profile import Profile

DEEP = Path(__file__).parents[1] / "workloads" / "deep.py"
CHUNK = 5_000
PERF_HZ, PERF_S = "20000", "5.2"
BASE = 0x5555_5555_4000
SAMPLE_EVENTS = re.compile(r"^\s*SAMPLE events:\s+(\d+)", re.MULTILINE)
PID = 5_000_000  # of no process: pid_max is 4,194,304


def build(folder: Path) -> Path:
    source, program = folder / "deep.c", folder / "deep"
    source.write_text(run(bare(str(DEEP)), folder).stdout)
    flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    flags += ["-Wl,--build-id", "-Wl,-z,noseparate-code"]  # an address is a place in the file
    subprocess.run(["gcc", *flags, "-o", str(program), str(source)], check=True)
    return program


def recorded_stacks(folder: Path, own: Path, program: Path) -> list[list[int]]:
    """The stack of each sample, root first: addresses in the program, 0 elsewhere."""
    command = ["perf", "script", "-F", "ip,sym,dso", "-i", str(own)]
    said = run(command, folder).stdout.replace("[unknown]", "?")
    stacks: list[list[int]] = []
    for text in said.split("\n\n"):
        frames = [line.split() for line in text.splitlines() if line.strip()]
        stacks.append([int(f[0], 16) * (f[-1] == f"({program})") for f in reversed(frames)])
    return [stack for stack in stacks if stack]


def profile_of(folder: Path, program: Path, stacks: list[list[int]]) -> str:
    """The finished profile of these samples."""
    functions = [each for each in readelf(program) if each.size]
    starts = sorted((each.start, number) for number, each in enumerate(functions, 1))
    note = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    found = re.search(r"Build ID: (\w+)", note.stdout)
    assert found
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(1, str(program), BASE, build_id=bytes.fromhex(found[1]))
    for number in range(len(functions) + 1):
        path = f"/site-packages/module{number}.py"
        spool.code(number + 1, f"Module{number}.forward", path, 1 + number)
    spool.thread(1, PID, "python", "MainThread")

    def frame(address: int) -> int:
        number = starts[bisect(starts, (address, len(functions))) - 1][1] if address else 0
        return native(1, address) if number % 2 else python(number + 1, address % 100)

    seen: dict[tuple[int, ...], int] = {}
    taken = []
    for stack in stacks:
        key = tuple(stack)
        if key not in seen:
            seen[key] = spool.stack(*map(frame, stack))
        taken.append(seen[key])
    spool.stacks()
    for first in range(0, len(taken), CHUNK):
        begin_ns = 2_000_000_000 + first * 1_000_000
        spool.samples(1, taken[first : first + CHUNK], first_ns=begin_ns)
    spool.counters(1, len(taken), len(taken), cpu_ns=len(taken) * 1_000_000)
    spool.end()
    return finish(spool.save(folder / "deep.part"), str(folder / "deep"))


def written(profile: str, path: Path) -> float:
    """Seconds from the finished profile to the file."""
    path.unlink(missing_ok=True)
    gc.disable()  # as `pyhybrid export` does
    begin = time.perf_counter()
    with Profile.open(profile) as opened:
        export_to(Perf(), opened, str(path))
    taken = time.perf_counter() - begin
    gc.enable()
    return taken


def record(folder: Path, program: Path) -> Path:
    path = folder / "perf.own"
    command = ["perf", "record", "-q", "-e", "task-clock:u", "-F", PERF_HZ, "-g", "-o", str(path)]
    run([*command, str(program), PERF_S], folder)
    return path


def n_samples(folder: Path, path: Path) -> int:
    said = run(["perf", "report", "--stats", "-i", str(path)], folder).stdout
    found = SAMPLE_EVENTS.search(said)
    assert found
    return int(found[1])


def reported(folder: Path, path: Path) -> float:
    """Seconds of `perf report --stdio`; it must have named the program's functions."""
    done = run(["perf", "report", "--stdio", "-i", str(path)], folder)
    assert re.search(r"\bf\d+\b|\bspin\b", done.stdout), "perf found no name"
    return done.ended - done.started


def measure_in(folder: Path, pairs: int) -> list[dict[str, Any]]:
    program = build(folder)
    ours, own = folder / "perf.ours", record(folder, program)
    stacks = recorded_stacks(folder, own, program)
    profile = profile_of(folder, program, stacks)
    with Profile.open(profile) as opened:
        perf_map = PerfMap().default_path(opened, "")
        export_to(PerfMap(), opened, perf_map)
    writing = [written(profile, ours) for _ in range(pairs)]
    count = {"ours": n_samples(folder, ours), "own": n_samples(folder, own)}
    count["depth"] = sum(map(len, stacks)) // len(stacks)
    count["stacks"] = len(set(map(tuple, stacks)))
    try:
        sides = (lambda: reported(folder, ours), lambda: reported(folder, own))
        reports = list(alternate(min(pairs, 5), *sides))
    finally:
        Path(perf_map).unlink(missing_ok=True)
    rounds: list[dict[str, Any]] = [{"samples": count, "written_s": writing}]
    return rounds + [{"ours_s": ours_s, "own_s": own_s} for ours_s, own_s in reports]


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        first, *reports = rounds = measure_in(Path(name), pairs)
    count = first["samples"]
    ours = [1e6 * each["ours_s"] / count["ours"] for each in reports]
    own = [1e6 * each["own_s"] / count["own"] for each in reports]
    rows = [
        row(
            "100,000 samples written",
            "s",
            [100_000 / count["ours"] * each for each in first["written_s"]],
            "<= 1",
        ),
        row(
            "perf report of a sample, over that of its own file",
            "x",
            [a / b for a, b in zip(ours, own, strict=True)],
            "<= 1",
        ),
        row("perf report, a sample of ours", "µs", ours),
        row("perf report, a sample of its own file", "µs", own),
        row("samples", "", [float(count["ours"]) for _ in reports]),
        row("frames of a stack", "", [float(count["depth"]) for _ in reports]),
        row("different stacks", "", [float(count["stacks"]) for _ in reports]),
    ]
    return [Figure("perf", "perf.data of 100,000 samples, 40 frames deep", rows, rounds)]
