"""How often `pyhybrid diff` finds a slower function where two other programs use the processors.

A round is one comparison for each kind of change, of three runs a side in turns, default options.
workloads/shop.py handles 20 requests together, so that a function runs for some 10 ms, or one after
the other, so that it runs for less than the period of the samples.  Intervals are Wilson's.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import sqrt
from pathlib import Path

from method import Figure, Row, profiled, run

from pyhybrid.assemble import open_profile
from pyhybrid.views.diff.change_limits import EXCEEDED, Limit, judge
from pyhybrid.views.diff.runs import Comparison, Runs, compared

SHOP = str(Path(__file__).parents[1] / "workloads" / "shop.py")
RUNS = 3  # a side
BEFORE = "before"
SIDES = {BEFORE: 1.0, "unchanged": 1.0, "10 % more": 1.1, "30 % more": 1.3, "twice": 2.0}
ANYTHING, SHARE = "share(rank) > +0%", "share(rank) > +5%"
TOTAL, TIME = "total(rank) > +5%", "time(rank) > +5%"
TABLE, ANY = "the table has rank", "the table has any function"
SHOWN = {  # with what should be reached, of 20 together
    "unchanged": {ANYTHING: "<= 2.5", SHARE: "", TOTAL: "", TIME: "", ANY: ""},
    "10 % more": {ANYTHING: ">= 50", SHARE: "", TOTAL: "", TABLE: ""},
    "30 % more": {ANYTHING: ">= 90", SHARE: "", TOTAL: "", TIME: "", TABLE: ""},
    "twice": {SHARE: "", TOTAL: "", TIME: "", TABLE: ""},
}


@contextmanager
def busy(n: int) -> Iterator[None]:
    """Keep `n` processors busy."""
    with ExitStack() as stack:
        for _ in range(n):
            loop = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


def one_round(folder: Path, together: int, number: int) -> dict[str, Comparison]:
    """Compare each kind of runs with those before."""
    runs = Runs(open_profile)
    found: dict[str, list[object]] = {side: [] for side in SIDES}
    for turn in range(RUNS):
        sides = [*SIDES]
        first = (number + turn) % len(sides)
        for side in sides[first:] + sides[:first]:
            options = ("-q", "-o", "shop")
            run(profiled(SHOP, str(SIDES[side]), str(together), options=options), folder)
            found[side].append(runs.read(str(folder / "shop.pyhybrid")))
    before = found.pop(BEFORE)
    return {side: compared(before, after) for side, after in found.items()}  # type: ignore[arg-type]


def what_is_found(comparison: Comparison) -> dict[str, bool]:
    names = [each.function.name for each in comparison.functions if each.differs]
    limits = {
        text: judge(comparison, Limit.parse(text)).state == EXCEEDED
        for text in (ANYTHING, SHARE, TOTAL, TIME)
    }
    return {**limits, TABLE: "rank" in names, ANY: bool(names)}


def share(what: str, found: Sequence[bool], reach: str) -> Row:
    n, p = len(found), sum(found) / len(found)
    z = 1.96
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = max(0, middle - half), min(1, middle + half)
    return Row(what, "%", 100 * p, 100 * low, 100 * high, n, reach)


def rows_of(together: int, rounds: Sequence[dict[str, dict[str, bool]]]) -> list[Row]:
    return [
        share(
            f"{together} together, {side}: {what}",
            [each[side][what] for each in rounds],
            reach if together > 1 else "",
        )
        for side, shown in SHOWN.items()
        for what, reach in shown.items()
    ]


def measure(pairs: int) -> list[Figure]:
    rows: list[Row] = []
    raw = []
    with tempfile.TemporaryDirectory() as name, busy(2):
        for together in (20, 1):
            rounds = []
            for number in range(pairs):
                changes = one_round(Path(name), together, number)
                rounds.append({side: what_is_found(each) for side, each in changes.items()})
                print(f"\r  {number + 1}/{pairs}", end="\n" * (number + 1 == pairs), flush=True)
            raw.append({"together": together, "rounds": rounds})
            rows += rows_of(together, rounds)
    return [
        Figure("regressions", f"Changes found on a busy machine, {RUNS} runs a side", rows, raw)
    ]
