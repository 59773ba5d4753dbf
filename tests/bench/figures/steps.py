"""Steps of examples/train.py with each engine, without one, and in hybrid mode, in one process:
less noise than whole runs have (training.py, hybrid.py), so the engines can be compared, and what
is the kernel's and the interpreter's share of what they cost."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from method import Figure, bare, compiled, over, python_include, run

WORKLOADS = Path(__file__).parents[1] / "workloads"
HZ = 999
ROUNDS = 2  # for each pair that is asked for: they are short


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled(WORKLOADS / "callbacks.c", folder, python_include())
        library = str(compiled(WORKLOADS / "empty_handler.c", folder))
        command = bare(str(WORKLOADS / "steps.py"), str(ROUNDS * pairs), str(HZ), library)
        done = run(command, folder, {"PYTHONPATH": name})
    raw = json.loads(done.stdout.splitlines()[-1])

    rows = partial(over, raw)
    table = []
    for engine in ("sigtrap", "perf_event"):
        empty = f"{engine}, empty handler"
        table += rows(engine, engine)
        table += rows(empty, empty)
    table += rows("the kernel's interrupts alone, without signals", "interrupts")
    table += rows("timer (by the kernel's tick)", "timer")
    for engine in ("sigtrap", "perf_event"):
        many, empty = f"{engine}, 64 threads", f"{engine}, empty handler, 64 threads"
        table += rows(f"{engine}, 64 threads alive", many, "off, 64 threads", "<= 1.05")
        table += rows(f"{engine}, 64 threads alive, empty handler", empty, "off, 64 threads")
    base = "off, 64 threads"
    table += rows("interrupts alone, 64 threads alive", "interrupts, 64 threads", base)
    table += rows("timer, 64 threads alive", "timer, 64 threads", base, "<= 1.05")
    table += rows("frames of the kernel over none", "sigtrap", "no kernel")
    table += rows("hybrid over sample mode", "hybrid", "sigtrap", "<= 1.02")
    table += rows("callbacks that only read the clock over none", "clock only", "sigtrap")
    return [Figure("steps", f"Steps of examples/train.py in one process at {HZ} Hz", table, raw)]
