"""What live outputs add to a call of a Python function, with nobody listening and with someone.

Warm, the best of several loops, all sides in turn in one process (workloads/live.py).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, row, run
from usdt_support import instructions_of_a_call

WORKLOAD = str(Path(__file__).parents[1] / "workloads" / "live.py")


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        rounds = json.loads(run(bare(WORKLOAD, str(pairs)), Path(folder)).stdout)
        of = instructions_of_a_call(Path(folder))

    def added(side: str, base: str = "bare") -> list[float]:
        return [r[side] - r[base] for r in rounds]

    def instructions(output: str) -> list[float]:
        return [of[output] - of["nothing"]]

    rows = [
        row("trace, no live output", "ns", added("trace")),
        row("usdt, nobody attached", "ns", added("usdt"), "<= 1"),
        row("usdt, nobody attached, beside trace", "ns", added("trace and usdt", "trace"), "<= 1"),
        row("usdt, probes of begins wanted, no tracer", "ns", added("usdt, begins")),
        row("usdt, begins and ends wanted, no tracer", "ns", added("usdt, begins and ends")),
        row("usdt, nobody attached: instructions", "", instructions("usdt"), "<= 0"),
        row("lttng, no session: instructions", "", instructions("lttng"), "<= 0"),
        row("print, a line to a file", "ns", added("print"), "<= 1000"),
    ]
    if "usdt, counted" in rounds[0]:
        rows.append(row("usdt, bpftrace counts begins", "ns", added("usdt, counted")))
    return [Figure("live", "Live outputs", rows, rounds)]
