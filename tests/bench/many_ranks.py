"""Asks for thousands of ranks, copies of a real run's: what DuckDB takes, and whether Spark agrees.

    python tests/bench/many_ranks.py FOLDER.ranks INTO --slow 2 --ranks 4000
    python tests/bench/many_ranks.py FOLDER.ranks INTO --slow 2 --ranks 2000 --runs 20 --spark

FOLDER is of a real run in which the rank `--slow` was, and INTO is made unless it is there.  CPU
seconds are of one thread, memory is the most that the process had.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
for room in ("unit", "system/support"):  # what they share with the tests
    sys.path.insert(0, str(ROOT / "tests" / room))

# By name what is asked; each in a process of its own.
QUESTIONS = {
    "nothing": "pass",
    "hottest functions": """ranks.execute(
        "SELECT function, max(name), count(*), sum(self_ns) AS self_ns, max(self_ns), "
        "max_by(process, self_ns) FROM function GROUP BY function "
        "ORDER BY self_ns DESC LIMIT 20")""",
    "steps": """ranks.execute(
        "SELECT step, count(*), sum(wall_ns), max(wall_ns), sum(gc_ns), sum(wait_ns) "
        "FROM step GROUP BY step ORDER BY step")""",
    "straggler": """ranks.execute(
        "SELECT process, sum(wait_ns) AS waits FROM step GROUP BY process "
        "ORDER BY waits LIMIT 5")""",
    "verdict": "print(judge(ranks).slow[0])",
}
ASK = """
import resource, sys
from pyhybrid.ranks.store import Ranks
from pyhybrid.ranks.verdict import judge
ranks = Ranks(sys.argv[1])
ranks.execute("SET threads = 1")
{question}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6)
"""


def asked(folder: str, question: str) -> tuple[float, float]:
    """CPU seconds, and memory in GB."""
    command = [sys.executable, "-P", "-c", ASK.format(question=question), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu_s, memory = done.stdout.split()[-2:]
    return float(cpu_s), float(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("into")
    parser.add_argument("--slow", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--spark", action="store_true", help="a cluster of two workers, too")
    options = parser.parse_args()
    if not Path(options.into).exists():
        from many_ranks import copies

        sizes = options.ranks, options.slow, options.runs
        copies(options.folder, options.into, *sizes, of_file=64, threads=1)
    base_s, _ = asked(options.into, QUESTIONS["nothing"])
    for name, question in QUESTIONS.items():
        cpu_s, memory = asked(options.into, question)
        print(f"{name:<20} {cpu_s - base_s:6.2f} s CPU {memory:6.2f} GB", flush=True)
    if options.spark:
        import spark_support

        with tempfile.TemporaryDirectory() as there:
            folder = Path(there)
            with spark_support.cluster(folder, 120, "3g") as master:
                done = spark_support.alike(Path(options.into), master, folder / "alike.py", None)
        print(done.stdout, done.stderr[-3000:] if done.returncode else "", sep="")


if __name__ == "__main__":
    main()
