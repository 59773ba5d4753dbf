"""`pyhybrid ps`: the Python processes that run, and what can be done to each."""

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from shutil import get_terminal_size

from pyhybrid.attach import ways
from pyhybrid.attach.matching import is_matching
from pyhybrid.attach.processes import Process, command_of, processes, while_it_lives
from pyhybrid.base.terminal_text import write_lines
from pyhybrid.errors import UsageError

UNBOUNDED = 10_000  # columns, where it is no terminal


class Ps:
    """Prints the Python processes that may be seen: number, version, for how long they run, and by
    which way `pyhybrid attach` would begin there, or why it could not.
    """

    name = "ps"
    words = ""
    help = "list the Python processes that run"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--json", action="store_true", help="as JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code."""
        rows = []
        for each in processes():
            with suppress(UsageError), while_it_lives(each.pid):
                rows += [_row(each)] if each.pid != os.getpid() else []
        if args.json:
            json.dump(rows, sys.stdout, indent=2)
            print()
            return 0
        lines = [f"{'pid':>8}  {'Python':<8} {'runs for':>9}  {'attach by':<28}  command"]
        lines += [
            f"{row['pid']:>8}  {row['python']:<8} {_age(row['runs_s']):>9}  {row['way']:<28}  "
            f"{row['command']}"
            for row in rows
        ]
        columns = get_terminal_size((UNBOUNDED, 0)).columns if sys.stdout.isatty() else UNBOUNDED
        lines = [line[:columns] for line in lines]
        write_lines(lines if rows else ["no Python process may be seen"], sys.stdout)
        return 0


def _row(process: Process) -> dict[str, object]:
    return {
        "pid": process.pid,
        "python": process.shown_version,
        "runs_s": round(time.time() - process.started, 1),
        "way": _way(process),
        "command": command_of(process.pid),
    }


def _way(process: Process) -> str:
    if process.is_profiled:
        return "none: it is profiled"
    try:
        is_matching(process)
    except UsageError as error:
        return f"none: {str(error).partition(': ')[2] or error}"
    return ways.ways(process)[0]


def _age(seconds: object) -> str:
    left = float(str(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if left >= size:
            return f"{left / size:.1f} {unit}"
    return f"{left:.0f} s"
