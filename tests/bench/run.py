"""make bench: measure, print the figures, and keep them in bench/NAME-PYTHON.json, which git
ignores.  For a release the tables in docs/benchmarks.md are written of these, with a column for
each interpreter that was measured.

    python tests/bench/run.py                       everything, 15 pairs
    python tests/bench/run.py -n 3 training         a quick look at one group
    python tests/bench/run.py --tables              measure nothing, write the tables

Run it alone on the machine.  A group of figures is a file in figures/ with a function `measure`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

import machine
import tables
from method import Figure

ROOT = Path(__file__).parents[2]
for room in ("unit", "system/support"):  # what they share with the tests
    sys.path.insert(0, str(ROOT / "tests" / room))

GROUPS = sorted(path.stem for path in (Path(__file__).parent / "figures").glob("[a-z]*.py"))


def save(figure: Figure, pairs: int, where: dict[str, object]) -> None:
    path = tables.store(ROOT, {**figure.as_json(), "pairs": pairs, **where})
    print(f"wrote {path.relative_to(ROOT)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the figures that the docs state")
    parser.add_argument("-n", "--pairs", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument(
        "--tables",
        action="store_true",
        help="measure nothing, write the tables of docs/benchmarks.md",
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")

    where = machine.describe(ROOT)
    if not options.tables and (load := os.getloadavg()[0]) > 0.5:
        print(f"not idle (load {load:.1f}): the figures will be off", file=sys.stderr)
    for group in [] if options.tables else options.groups or GROUPS:
        print(f"{group}: {options.pairs} pairs", flush=True)
        for figure in importlib.import_module(f"figures.{group}").measure(options.pairs):
            for row in figure.rows:
                print(f"  {row}", flush=True)
            save(figure, options.pairs, where)
    if options.tables:
        tables.write(ROOT)


if __name__ == "__main__":
    main()
