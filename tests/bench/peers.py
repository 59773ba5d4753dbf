"""make bench-peers: other profilers on the same programs, each with its best reasonable options.

    python tests/bench/peers.py [-n PAIRS]

Every round runs each program bare and under every profiler that starts here, in turn.  The figures
lie in bench/peers-PYTHON.json, and are printed as the table of docs/benchmarks.md:

    slowdown    of the program itself, to its last line, over bare: CPU time / wall time
    samples     recorded, and per second of the program's CPU time
    C++ below   of the samples in Linear.forward, a Python function, the share with C++ below it
    to file     from the program's last line until the command returns, bare's subtracted
    file        what it wrote
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import machine
import tables
from figures.training import times
from method import Process, alternate, bare, profiled, run

ROOT = Path(__file__).parents[2]
WORKLOADS = Path(__file__).parent / "workloads"
TIMED = str(WORKLOADS / "timed.py")
PROGRAMS = {
    "examples/train.py --epochs 2": [str(ROOT / "examples" / "train.py"), "--epochs", "2"],
    "Python calls": [str(WORKLOADS / "peers.py")],
}
PYTHON_FRAME = re.compile(r"Linear\.forward|forward \(\S*linear\.py|linear\.py:forward")
BELOW = re.compile(r"\bat::")

Taken = dict[str, float | None]
Stacks = Iterator[tuple[str, int]]  # frames from the root on, separated by semicolons; samples


class Failed(Exception):
    """One run; the text says why."""


def folded(path: Path) -> Stacks:
    for line in path.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        yield stack, int(n)


def in_folded(path: Path) -> int:
    return sum(n for _, n in folded(path))


def by_perf(path: Path) -> int:
    command = ["perf", "script", "-G", "-F", "ip", "-i", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return len(text.splitlines())


def recorded(path: Path) -> int:
    """Not the sum of out.folded, which is weight: several periods may be one sample's."""
    text = run(profiled("report", "out.pyhybrid", "--json"), path.parent).stdout
    return int(json.loads(text)["samples"]["recorded"])


@dataclass(frozen=True)
class Peer:
    """A profiler: how it runs a script, what it writes, how its samples are counted if it has any,
    and whether the first of its files is folded stacks."""

    name: str
    command: Callable[[Sequence[str]], list[str]]
    files: tuple[str, ...]
    count: Callable[[Path], int] | None = None
    is_folded: bool = False


def module(name: str, *options: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda script: [sys.executable, "-m", name, *options, *script]


def tool(*words: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda script: [*words, sys.executable, *script]


def scalene(script: Sequence[str]) -> list[str]:
    options = ("--cpu-only", "-o", "out.json")
    return [sys.executable, "-m", "scalene", "run", *options, script[0], "---", *script[1:]]


def ours(*options: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda script: profiled(*script, options=("-q", "--hz", "999", *options))


PERF = ("perf", "record", "-q", "-F", "999", "-o", "out.perf")
PY_SPY = ("py-spy", "record", "-r", "999", "-f", "raw", "-o", "out.raw", "--threads")
FILES = ("out.folded", "out.pyhybrid", "perf.data")
PEERS = [
    Peer("pyhybrid", ours(), FILES, recorded, is_folded=True),
    Peer("pyhybrid --mode sample", ours("--mode", "sample"), FILES, recorded, is_folded=True),
    Peer("py-spy, 999 Hz", tool(*PY_SPY, "--"), ("out.raw",), in_folded, is_folded=True),
    Peer(
        "py-spy --native, 999 Hz",
        tool(*PY_SPY, "--native", "--"),
        ("out.raw",),
        in_folded,
        is_folded=True,
    ),
    Peer("perf record -g", tool(*PERF, "-g", "--"), ("out.perf",), by_perf),
    Peer(
        "perf record --call-graph dwarf",
        tool(*PERF, "--call-graph", "dwarf", "--"),
        ("out.perf",),
        by_perf,
    ),
    Peer("cProfile", module("cProfile", "-o", "out.pstats"), ("out.pstats",)),
    Peer("yappi", module("yappi", "-c", "wall", "-o", "out.callgrind"), ("out.callgrind",)),
    Peer("viztracer", module("viztracer", "--quiet", "-o", "out.json", "--"), ("out.json",)),
    Peer("pyinstrument", module("pyinstrument", "-r", "json", "-o", "out.json"), ("out.json",)),
    Peer("scalene --cpu-only", scalene, ("out.json",)),
    Peer(
        "memray --native",
        module("memray", "run", "-q", "--native", "-f", "-o", "out.bin"),
        ("out.bin",),
    ),
    Peer("austin, 1 ms", tool("austin", "-i", "1ms", "-o", "out.austin"), ("out.austin",)),
]


def take(peer: Peer | None, script: list[str]) -> Taken:
    """One run.  Raises Failed where the profiler or the program under it does not do its work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = peer.command([TIMED, *script]) if peer else bare(TIMED, *script)
        try:
            found: Taken = dict(times(said(run(command, folder))))
            files = [folder / file for file in (peer.files if peer else ())]
            found["bytes"] = sum(file.stat().st_size for file in files)
            if peer and peer.count:
                found["samples"] = peer.count(files[0])
            if peer and peer.is_folded:
                inside = below = 0
                for stack, n in folded(files[0]):
                    if match := PYTHON_FRAME.search(stack):
                        inside += n
                        below += n * bool(BELOW.search(stack, match.end()))
                found["below"] = below / inside if inside else None
        except (
            SystemExit,
            OSError,
            ValueError,
            StopIteration,
            subprocess.SubprocessError,
        ) as error:
            lines = str(error).strip().splitlines()
            raise Failed(lines[-1] if lines else type(error).__name__) from None
        return found


def said(process: Process) -> Process:
    """With the line of timed.py last: some profilers say more after it."""
    lines = [line for line in process.stdout.splitlines() if line.startswith('{"cpu_s"')]
    process.stdout = next(reversed(lines))
    return process


def try_one(peer: Peer, script: list[str]) -> Taken:
    """`take`, or nothing: one that fails now and then shall not end an hour of measuring."""
    try:
        return take(peer, script)
    except Failed as error:
        print(f"  failed this time: {peer.name}: {error}", flush=True)
        return {}


def try_all(script: list[str]) -> tuple[list[Peer], dict[str, str]]:
    """Those that work here, and why the others do not: by one run each, which warms up as well."""
    working, failed = [], {}
    for peer in PEERS:
        try:
            take(peer, script)
            working.append(peer)
        except Failed as error:
            failed[peer.name] = str(error)
    return working, failed


def measure(pairs: int) -> list[dict[str, object]]:
    """For each program, a row for each profiler."""
    result: list[dict[str, object]] = []
    for program, script in PROGRAMS.items():
        working, failed = try_all(script)
        for name, why in failed.items():
            print(f"  failed: {name}: {why}", flush=True)
            result.append({"program": program, "profiler": name, "failed": why})
        print(program, flush=True)
        sides = [partial(try_one, peer, script) for peer in working]
        rounds = list(alternate(pairs, partial(take, None, script), *sides))
        for number, peer in enumerate(working, 1):
            both = [(each[0], each[number]) for each in rounds if each[number]]
            row = summary(both) if both else {"failed": "in every round"}
            result.append({"program": program, "profiler": peer.name, **row})
    return result


def summary(both: list[tuple[Taken, Taken]]) -> dict[str, float | None]:
    """Medians over the rounds of (bare, profiled)."""

    def median(of: Callable[[Taken, Taken], float | None]) -> float | None:
        values = [value for pair in both if (value := of(*pair)) is not None]
        return statistics.median(values) if values else None

    def ratio(key: str) -> float | None:
        return median(lambda b, p: (p[key] or 0) / (b[key] or 1))

    return {
        "cpu": ratio("program_cpu_s"),
        "wall": ratio("program_wall_s"),
        "samples": median(lambda _, p: p.get("samples")),
        "rate": median(
            lambda _, p: p["samples"] / p["program_cpu_s"] if p.get("samples") else None
        ),
        "below": median(lambda _, p: p.get("below")),
        "to_file_s": median(lambda b, p: (p["exit_s"] or 0) - (b["exit_s"] or 0)),
        "bytes": median(lambda _, p: p["bytes"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="compare with other profilers")
    parser.add_argument("-n", "--pairs", type=int, default=15, help="rounds (default: 15)")
    options = parser.parse_args()
    result = {
        "name": "peers",
        "title": "Other profilers on the same programs",
        "pairs": options.pairs,
        "columns": measure(options.pairs),
        **machine.describe(ROOT),
    }
    tables.store(ROOT, result)
    print(tables.table([result]))


if __name__ == "__main__":
    main()
