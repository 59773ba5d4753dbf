"""How every figure is measured: both sides alternate, medians of pairs, order-statistic intervals.

The 95 % interval of a median is the widest pair of ranks that a fair coin leaves outside in less
than 5 % of the cases (binomial): it assumes nothing about the distribution.  Below six rounds there
is none, and the range is given instead.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Row:
    """One line of a table: a median with its interval, and what it should reach."""

    what: str
    unit: str  # "x" for a ratio
    value: float
    low: float
    high: float
    rounds: int
    reach: str = ""  # "<= 1.04", ">= 0.98", or nothing

    @property
    def reached(self) -> bool | None:
        if not self.reach:
            return None
        relation, bound = self.reach.split()
        return self.value <= float(bound) if relation == "<=" else self.value >= float(bound)

    def __str__(self) -> str:
        verdict = {None: "", True: f"  ({self.reach})", False: f"  MISSED ({self.reach})"}
        interval = f"[{self.low:.4g}, {self.high:.4g}]"
        return f"{self.what}: {self.value:.4g} {self.unit} {interval}{verdict[self.reached]}"


@dataclass
class Figure:
    """A table: its file bench/NAME-PYTHON.json, its rows, and the raw rounds behind them."""

    name: str
    title: str
    rows: list[Row]
    raw: Sequence[object] = ()

    def __post_init__(self) -> None:
        """Tables go by what a row is about."""
        if len({row.what for row in self.rows}) != len(self.rows):
            raise ValueError(f"{self.name}: two rows are about the same")

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "reached": [row.reached for row in self.rows]}


def row(what: str, unit: str, values: Sequence[float], reach: str = "") -> Row:
    ordered = sorted(values)
    n, skip = len(ordered), 0
    while 2 * sum(math.comb(n, i) for i in range(skip + 1)) / 2**n <= 0.05:
        skip += 1
    skip = max(0, skip - 1)
    low, high = ordered[skip], ordered[n - 1 - skip]
    return Row(what, unit, statistics.median(ordered), low, high, n, reach)


def over(
    raw: Sequence[Mapping[str, Sequence[float]]],
    what: str,
    side: str,
    base: str = "off",
    reach: str = "",
) -> list[Row]:
    """CPU and wall time of one side over another's, of rounds {side: [CPU s, wall s]}."""
    return [
        row(f"{what}, {clock}", "x", [each[side][i] / each[base][i] for each in raw], reach)
        for i, clock in enumerate(("process CPU time", "wall time"))
    ]


def alternate[T](rounds: int, *sides: Callable[[], T]) -> Iterator[tuple[T, ...]]:
    """`rounds` times all sides, in their order; each round another one goes first."""
    n = len(sides)
    for i in range(rounds):
        first = i % n
        results = [sides[(first + j) % n]() for j in range(n)]
        yield tuple(results[(j - first) % n] for j in range(n))
        print(f"\r  {i + 1}/{rounds}", end="\n" if i + 1 == rounds else "", flush=True)


@dataclass
class Process:
    """A finished process: what it printed, and what it took."""

    stdout: str
    stderr: str
    started: float  # CLOCK_MONOTONIC, seconds
    ended: float
    cpu_s: float  # with the children it waited for
    peak_mb: float  # resident, at most


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str] = {}) -> Process:
    """Run to the end; CPU time comes from wait4, so nothing else of ours is in it."""
    out, err = cwd / "bench.stdout", cwd / "bench.stderr"
    with out.open("w") as stdout, err.open("w") as stderr:
        started = time.monotonic()
        child = subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **env}, stdout=stdout, stderr=stderr
        )
        _, status, usage = os.wait4(child.pid, 0)
        ended = time.monotonic()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}\nfailed with {child.returncode}:\n{err.read_text()}")
    cpu_s = usage.ru_utime + usage.ru_stime
    peak_mb = usage.ru_maxrss / 1024
    return Process(out.read_text(), err.read_text(), started, ended, cpu_s, peak_mb)


def compiled(source: Path, folder: Path, *options: str) -> Path:
    """A shared library of one C file."""
    library = (folder / source.name).with_suffix(".so")
    command = ["gcc", "-O2", "-fPIC", "-shared", "-pthread", *options]
    subprocess.run([*command, "-o", str(library), str(source)], check=True)
    return library


def python_include() -> str:
    return f"-I{sysconfig.get_path('include')}"


def bare(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def profiled(*arguments: str, options: Sequence[str] = ()) -> list[str]:
    return [sys.executable, "-m", "pyhybrid", *options, *arguments]
