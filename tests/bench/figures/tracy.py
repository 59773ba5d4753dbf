"""What `--emit tracy` costs a call, with a capture connected."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, row, run
from tracy_support import capturing, client

WORKLOAD = str(Path(__file__).parents[1] / "workloads" / "zones.py")


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        with capturing(Path(folder) / "t.tracy") as (captured, environment):
            command = bare(WORKLOAD, str(pairs), str(client()))
            rounds = json.loads(run(command, Path(folder), environment).stdout)
        assert captured.zones > 40 * 2000 * pairs  # it was connected

    def less(side: str, base: str) -> list[float]:
        return [r[side] - r[base] for r in rounds]

    rows = [
        row("a call that is counted, more than a bare call", "ns", less("counted", "bare")),
        row("a zone, more than a call that is counted", "ns", less("zones", "counted"), "<= 40"),
    ]
    return [Figure("tracy", "A call that is a zone in Tracy", rows, rounds)]
