"""Calls and times of workload.py by cProfile and by pyhybrid, as a table in Markdown.

    python compare.py [STEPS [ROUNDS]]

Each round is a run without a profiler, one under cProfile, one under pyhybrid.  Of the times the
best round counts; calls are the same in all rounds, or this fails.
"""

import pstats
import re
import subprocess
import sys
import tempfile
from pathlib import Path

WORKLOAD = str(Path(__file__).parent / "workload.py")
FUNCTIONS = "run_workload", "train_step", "forward_pass"

Figures = dict[str, tuple[int, float]]  # calls and seconds, by function


def run(*words: object) -> str:
    """Python with these arguments; what it prints."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def alone(steps: int) -> float:
    """Seconds that run_workload takes by its own clock."""
    (seconds,) = re.findall(r"took ([\d.]+) s", run(WORKLOAD, steps))
    return float(seconds)


def figures(file: Path) -> Figures:
    """Of the workload's functions in a file of pstats; its own names are not qualified."""
    stats = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    found = {name: row for (path, _, name), row in stats.items() if path.endswith("workload.py")}
    return {name: (found[name][1], found[name][3]) for name in FUNCTIONS}


def by_cprofile(folder: Path, steps: int) -> Figures:
    """As cProfile counts and times them."""
    file = folder / "cprofile_stats.dat"
    run("-m", "cProfile", "-o", file, WORKLOAD, steps)
    return figures(file)


def by_pyhybrid(folder: Path, steps: int) -> Figures:
    """As pyhybrid does."""
    prefix = folder / "out"
    run(
        *("-m", "pyhybrid", "--mode", "trace", "--format", "pstats", "-q"),
        "-o",
        prefix,
        WORKLOAD,
        steps,
    )
    return figures(prefix.with_suffix(".pstats"))


def best(rounds: list[Figures]) -> Figures:
    """The least time of each function; calls are the same in all rounds."""
    for name in FUNCTIONS:
        assert len({each[name][0] for each in rounds}) == 1, name
    return {name: min(each[name] for each in rounds) for name in FUNCTIONS}


def main() -> None:
    """Run and print."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    bare, theirs, ours = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            bare.append(alone(steps))
            theirs.append(by_cprofile(Path(folder), steps))
            ours.append(by_pyhybrid(Path(folder), steps))
    print("| | ncalls, cProfile | calls, pyhybrid | | cumtime, cProfile | total, pyhybrid | |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in FUNCTIONS:
        (ncalls, cumtime), (calls, total) = best(theirs)[name], best(ours)[name]
        print(
            f"| `{name}` | {ncalls} | {calls} | {(calls / ncalls - 1) * 100:+.1f} % "
            f"| {cumtime:.4f} s | {total:.4f} s | {(total / cumtime - 1) * 100:+.1f} % |"
        )
    print(f"\n{steps} steps; without a profiler `run_workload` takes {min(bare):.4f} s.")


if __name__ == "__main__":
    main()
