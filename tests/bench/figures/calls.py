"""What an exactly counted call costs: added to a bare call, and beside cProfile.

Warm: each time is the best of several loops, as it is for a loop that runs long.
An await is `await nothing()`, which awaits `asyncio.sleep(0)`: by one task of 100, or by a lone
one, when each takes a round of the event loop.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from method import Figure, bare, compiled, python_include, row, run

WORKLOADS = Path(__file__).parents[1] / "workloads"
WORKLOAD = str(WORKLOADS / "called.py")
IN_ONE = 3  # rounds in one process; the next has another layout of code and memory


def measure(pairs: int) -> list[Figure]:
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        compiled(WORKLOADS / "callbacks.c", Path(folder), python_include())
        env = {"PYTHONPATH": folder}
        for first in range(0, pairs, IN_ONE):
            command = bare(WORKLOAD, str(min(IN_ONE, pairs - first)), str(first))
            rounds += json.loads(run(command, Path(folder), env).stdout)

    def added(which: str, kind: str) -> list[float]:
        return [r[which][kind] - r["bare"][kind] for r in rounds]

    def ratio(which: str, kind: str) -> list[float]:
        return [r[which][kind] / r["bare"][kind] for r in rounds]

    more = [
        (r["trace"]["sorted"] - r["bare"]["sorted"]) - (r["trace"]["fib"] - r["bare"]["fib"])
        for r in rounds
    ]
    logged = [r["events"]["fib"] - r["trace"]["fib"] for r in rounds]
    share = [
        (r["trace"]["fib"] - r["bare"]["fib"]) / (r["cProfile"]["fib"] - r["bare"]["fib"])
        for r in rounds
    ]
    rows = [
        row("added to a call (fib)", "ns", added("trace", "fib"), "<= 35"),
        row("by callbacks that do nothing", "ns", added("empty callbacks", "fib")),
        row("by callbacks that only read the clock", "ns", added("clock only", "fib")),
        row("fib, slowdown", "x", ratio("trace", "fib"), "<= 2.5"),
        row("fib, added time over cProfile's", "x", share, "<= 0.35"),
        row("fib, slowdown under cProfile", "x", ratio("cProfile", "fib")),
        row("called from C (key of sorted), more than fib", "ns", more, "<= 15"),
        row("added to a call from map", "ns", added("trace", "map")),
        row("added to a turn of a generator", "ns", added("trace", "generator")),
        row("added to an await, of 100 tasks", "ns", added("trace", "await"), "<= 500"),
        row("the same by cProfile", "ns", added("cProfile", "await")),
        row("an await by callbacks that do nothing", "ns", added("empty callbacks", "await")),
        row("an await by callbacks that only read the clock", "ns", added("clock only", "await")),
        row("added to an await of a lone task", "ns", added("trace", "lone await")),
        row("hybrid at 999 Hz, added to a call (fib)", "ns", added("hybrid", "fib")),
        row("the event log, added to a counted call", "ns", logged, "<= 15"),
        row("a region, entered and left", "ns", [r["trace"]["region"] for r in rounds], "<= 200"),
        row("a region without a profiler", "ns", [r["bare"]["region"] for r in rounds]),
        row("code that is not selected (fib)", "x", ratio("not selected", "fib"), "<= 1.02"),
        row(
            "added to an exception that leaves such code", "ns", added("not selected", "exception")
        ),
    ]
    return [Figure("calls", "A call that is counted", rows, rounds)]
