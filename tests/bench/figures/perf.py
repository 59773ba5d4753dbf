"""perf.data of 100,000 samples, 40 frames deep: how long to write, and for `perf report` to read.

perf's own file is a recording of a C program that is always 40 calls deep (workloads/deep.py).
Ours is made by hand, of the same program's functions; each second frame is a Python function.
"""

from __future__ import annotations

import gc
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from elf_functions import Function, readelf
from method import Figure, alternate, bare, row, run

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from spool_writer import SpoolWriter, native, python  # noqa: E402

from pyhybrid.exporters.perf import Perf  # noqa: E402
from pyhybrid.exporters.perf_map import PerfMap  # noqa: E402
from pyhybrid.finish import finish  # noqa: E402
from pyhybrid.profile_file import Profile  # noqa: E402

DEEP = Path(__file__).parents[1] / "workloads" / "deep.py"
SAMPLES, DEPTH, STACKS = 100_000, 40, 30_000  # a training has as many stacks for its samples
INNER = 8  # frames in which neighbouring stacks differ
CHUNK = 5_000
PERF_HZ, PERF_S = "20000", "5"
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


def made_by_hand(folder: Path, program: Path) -> str:
    """The finished profile: threads' names, times and weights as real ones have them."""
    chance = random.Random(1)
    functions = [each for each in readelf(program) if re.fullmatch(r"f\d+", each.name)]
    note = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    found = re.search(r"Build ID: (\w+)", note.stdout)
    assert found
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(1, str(program), BASE, build_id=bytes.fromhex(found[1]))
    for number in range(1, len(functions) + 1):
        spool.code(number, f"Module{number}.forward", f"/site-packages/module{number}.py", number)
    spool.thread(1, PID, "python", "MainThread")

    def frame(level: int, function: Function) -> int:
        if level % 2:
            return native(1, function.start + chance.randrange(function.size))
        return python(chance.randrange(1, len(functions) + 1), chance.randrange(100))

    # Neighbours share their outer frames: some 10 new ones for each stack, as in a training.
    stacks = []
    while len(stacks) < STACKS:
        chosen = chance.choices(functions, k=DEPTH - INNER)
        outer = [frame(level, each) for level, each in enumerate(chosen)]
        for _ in range(10):
            chosen = chance.choices(functions, k=INNER)
            inner = [frame(level, each) for level, each in enumerate(chosen)]
            stacks.append(spool.stack(*outer, *inner))
    spool.stacks()
    for first in range(0, SAMPLES, CHUNK):
        taken = stacks if not first else chance.choices(stacks, k=CHUNK)
        begin_ns = 2_000_000_000 + first * 1_000_000
        spool.samples(1, taken[:CHUNK], first_ns=begin_ns)
    spool.counters(1, SAMPLES, SAMPLES, cpu_ns=SAMPLES * 1_000_000)
    spool.end()
    return finish(spool.save(folder / "deep.part"), str(folder / "deep"))


def written(profile: str, path: Path) -> float:
    """Seconds from the finished profile to the file."""
    path.unlink(missing_ok=True)
    gc.disable()  # as `pyhybrid export` does
    begin = time.perf_counter()
    with Profile.open(profile) as opened:
        Perf().write(opened, str(path))
    taken = time.perf_counter() - begin
    gc.enable()
    return taken


def record(folder: Path, program: Path) -> Path:
    path = folder / "perf.own"
    command = ["perf", "record", "-q", "-e", "task-clock", "-F", PERF_HZ, "-g", "-o", str(path)]
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
    profile = made_by_hand(folder, program)
    ours, own = folder / "perf.ours", record(folder, program)
    with Profile.open(profile) as opened:
        perf_map = PerfMap().default_path(opened, "")
        PerfMap().write(opened, perf_map)
    writing = [written(profile, ours) for _ in range(pairs)]
    count = {"ours": n_samples(folder, ours), "own": n_samples(folder, own)}
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
        row("100,000 samples written", "s", first["written_s"], "<= 1"),
        row(
            "perf report of a sample, over that of its own file",
            "x",
            [a / b for a, b in zip(ours, own, strict=True)],
            "<= 1",
        ),
        row("perf report, a sample of ours", "µs", ours),
        row("perf report, a sample of its own file", "µs", own),
        row("samples of its own file", "", [float(count["own"]) for _ in reports]),
    ]
    return [Figure("perf", "perf.data of 100,000 samples, 40 frames deep", rows, rounds)]
