"""`pyhybrid dump PID...`: all stacks of processes that run, once."""

import argparse
import json
import sys
from typing import Any

from pyhybrid.attach.matching import go_on_by_matching, is_matching
from pyhybrid.attach.processes import Process, while_it_lives
from pyhybrid.attach.same_stacks import listing
from pyhybrid.attach.stacks import Reader
from pyhybrid.base.terminal_text import write_lines
from pyhybrid.cli.attach import PID
from pyhybrid.errors import UsageError


class Dump:
    """Prints the stacks of all threads, Python and native frames in one, innermost first, as they
    are now; what is alike in several threads or processes once.  Processes may hang: nothing runs
    in them; each thread stands still for milliseconds.
    """

    name = "dump"
    words = "PID..."
    help = "print all stacks of processes that run, or hang"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("pids", nargs="+", type=PID, metavar="PID", help="see `pyhybrid ps`")
        parser.add_argument("--full", action="store_true", help="the interpreter's frames, too")
        parser.add_argument(
            "--python", action="store_true", help="Python frames alone: no thread is stopped"
        )
        parser.add_argument(
            "--locals",
            action="store_true",
            help="local variables, too: numbers and texts (100 characters), of others what type "
            "and how many",
        )
        parser.add_argument("--json", action="store_true", help="as JSON, all frames")

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        processes = [Process(pid) for pid in dict.fromkeys(args.pids)]
        if not any(is_matching(each) for each in processes):
            go_on_by_matching(processes[0])
        reader = Reader(natives=not args.python, variables=args.locals)
        for process in processes:
            if not is_matching(process):
                runs = f"process {process.pid} runs Python {process.shown_version}"
                raise UsageError(f"{runs}, and others another one: one call for each version")
            with while_it_lives(process.pid):
                reader.read(process)
        found = reader.stacks()
        if args.json:
            json.dump([_plain(each) for each in found], sys.stdout, indent=2)
            print()
        else:
            write_lines(listing(found, full=args.full), sys.stdout)
        return 0


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
