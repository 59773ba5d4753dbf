"""What the stacks of examples/train.py are worth, from its import of torch to its end."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from method import Figure, profiled, row, run

from figures.training import TRAIN

HZ = 1999


def one_round(folder: Path) -> dict[str, Any]:
    options = ["--mode", "sample", "--hz", str(HZ), "--format", "folded"]
    run(profiled(TRAIN, options=options), folder)

    def report(*of: str) -> dict[str, Any]:
        found = json.loads(run(profiled("report", "out.pyhybrid", "--json", *of), folder).stdout)
        return {key: found[key] for key in ("quality", "recorded", "wall_ns")}

    whole = report()
    return {"whole": whole, "training": report("--from", f"{whole['wall_ns'] / 2e9:.1f}s")}


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        rounds = [one_round(Path(name)) for _ in range(min(pairs, 5))]

    def shares(when: str, what: str) -> list[float]:
        return [100 * each[when]["quality"][what] for each in rounds]

    rows = [
        row("do not reach the thread's root", "%", shares("whole", "truncated"), "<= 0.5"),
        row("have a gap", "%", shares("whole", "gapped")),
        row(
            "are re-anchored behind code that cannot be unwound",
            "%",
            shares("whole", "re_anchored"),
        ),
        row("have a gap, in the second half", "%", shares("training", "gapped"), "<= 1"),
        row("samples", "", [each["whole"]["recorded"] for each in rounds]),
    ]
    return [Figure("quality", f"Stacks of examples/train.py at {HZ} Hz", rows, rounds)]
