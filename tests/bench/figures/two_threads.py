"""Slowdown of a PyTorch training of two compute threads, by engine and with 64 threads alive."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, Row, bare, compiled, over, run

WORKLOADS = Path(__file__).parents[1] / "workloads"
HZ = 999
ROUNDS = 12  # for each pair that is asked for: 9 s each


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = str(compiled(WORKLOADS / "empty_handler.c", folder))
        arguments = str(ROUNDS * pairs), str(HZ), library
        done = run(bare(str(WORKLOADS / "two_threads.py"), *arguments), folder)
    raw = json.loads(done.stdout.splitlines()[-1])

    def rows(side: str, alive: str, reach: str) -> list[Row]:
        return over(raw, side + alive, side + alive, f"{side}{alive}, off", reach)

    reaches = {"sigtrap": "", "perf_event": "<= 1.04", "timer": "<= 1.025"}
    table = []  # "off" beside "off": what the noise of this measurement is
    for alive in ("", ", 64 threads"):
        for side in ("sigtrap", "perf_event", "timer"):
            table += rows(side, alive, "<= 1.05" if alive else reaches[side])
        for side in ("sigtrap, empty handler", "perf_event, empty handler", "interrupts", "off"):
            table += rows(side, alive, "")
    title = f"Slowdown of a training of two compute threads at {HZ} Hz"
    return [Figure("two_threads", title, table, raw)]
