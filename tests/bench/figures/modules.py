"""What PyTorch's own terms cost: a module's call, any call, an autograd node, a step of a training;
and what a step adds to the file.

Beyond hybrid mode without them (--torch no-modules,no-steps), in processes of one side each that
begin as forks of one which has imported PyTorch (workloads/modules.py).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, compiled, row, run

WORKLOADS = Path(__file__).parents[1] / "workloads"


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        empty = str(compiled(WORKLOADS / "empty_record.c", Path(folder)))
        command = bare(str(WORKLOADS / "modules.py"), str(pairs), empty)
        told = json.loads(run(command, Path(folder)).stdout)
    rounds, files = told["rounds"], told["files"]

    def beyond(figure: str) -> list[float]:
        return [each["all"][figure] - each["hybrid"][figure] for each in rounds]

    (few, first), (many, last) = files.items()
    added_kb = (last["bytes"] - first["bytes"]) / (int(many) - int(few)) / 1000
    callback = [each["callback"]["node"] - each["bare"]["node"] for each in rounds]
    over_bare = [each["all"]["step"] / each["bare"]["step"] for each in rounds]
    hybrid = [each["hybrid"]["step"] / each["bare"]["step"] for each in rounds]
    rows = [
        row("a module's call, beyond hybrid mode", "ns", beyond("module"), "<= 250"),
        row("any Python call, beyond --torch no-modules", "ns", beyond("call"), "<= 1"),
        row("an autograd node that runs", "ns", beyond("node"), "<= 200"),
        row("the same, of an empty callback of PyTorch's, beyond bare", "ns", callback),
        row("the same without links", "ns", [each["hybrid"]["node"] for each in rounds]),
        row("a step of 12 small layers, all of it, over bare", "x", over_bare, "<= 1.12"),
        row("the same in hybrid mode without modules and steps", "x", hybrid),
        row(
            f"call paths that are counted, after {many} steps over {few}",
            "x",
            [last["counted"] / first["counted"]],
        ),
        row(f"all, with sampled ones, {many} over {few}", "x", [last["nodes"] / first["nodes"]]),
        row(f"the file after {few} steps", "MB", [first["bytes"] / 1e6]),
        row("what one more step adds to it", "kB", [added_kb]),
    ]
    return [Figure("modules", "A training by layer and step", rows, rounds)]
