"""What `--emit lttng` costs a call: while no session wants it, and while one records it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from lttng_support import Lttng
from method import Figure, bare, row, run

WORKLOAD = str(Path(__file__).parents[1] / "workloads" / "recorded.py")


def measure(pairs: int) -> list[Figure]:
    own = Lttng()
    try:
        own.start_daemon()
        with tempfile.TemporaryDirectory() as folder:
            command = [*own.command, *bare(WORKLOAD, str(pairs), folder)]
            found = json.loads(run(command, Path(folder), own.env).stdout)
    finally:
        own.close()
    rounds = found["rounds"]
    assert not found["discarded"]  # which cost less

    def less(side: str, base: str) -> list[float]:
        return [r[side] - r[base] for r in rounds]

    rows = [
        row("no session: more than a bare call", "ns", less("no session", "bare"), "<= 1"),
        row("a call that is counted, in all", "ns", [r["counted"] for r in rounds]),
        row("a call that is recorded, in all", "ns", [r["recorded"] for r in rounds], "<= 230"),
        row("an event, with its names", "ns", [n / 2 for n in less("recorded", "counted")]),
    ]
    return [Figure("lttng", "A call that LTTng records", rows, rounds)]
