"""`pyhybrid dump PID...`: all stacks of processes that run, once."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from functools import partial

from pyhybrid.attach.matching import go_on_by_matching, is_matching
from pyhybrid.attach.processes import Process, below, processes, while_it_lives
from pyhybrid.attach.same_stacks import listing
from pyhybrid.attach.stacks import Reader
from pyhybrid.base.light import matches
from pyhybrid.base.terminal_text import say, write_lines
from pyhybrid.errors import UsageError
from pyhybrid.report.table import plain


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
        parser.add_argument(
            "which",
            nargs="+",
            metavar="PID",
            help="the process: see `pyhybrid ps`; or all that run such a script or module: "
            "train.py, 'work*'",
        )
        parser.add_argument("--children", action="store_true", help="the processes below, too")
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
        chosen = list(_chosen(args.which, children=args.children))
        if not any(is_matching(each) for each in chosen):
            go_on_by_matching(chosen[0])
        reader = Reader(natives=not args.python, variables=args.locals)
        for process in chosen:
            if not is_matching(process):
                say(f"process {process.pid} runs Python {process.shown_version}: it is left out")
                continue
            try:
                with while_it_lives(process.pid):
                    reader.read(process)
            except UsageError as error:  # of those that are meant by a name some may just end
                if str(process.pid) in args.which:
                    raise
                say(f"{error}: it is left out")
        found = reader.stacks()
        if args.json:
            json.dump(plain(found), sys.stdout, indent=2)
            print()
        else:
            write_lines(listing(found, full=args.full), sys.stdout)
        return 0


def _chosen(words: list[str], *, children: bool) -> Iterator[Process]:
    """Yield the processes that are meant, each once.  Raises UsageError."""
    seen = {os.getpid()}
    for word in dict.fromkeys(words):
        if word.isdecimal():
            found = [Process(int(word))]
        else:
            named = processes(partial(matches, pattern=word))
            found = [each for each in named if each.pid != os.getpid()]
        if not found:
            raise UsageError(f"no Python process runs {word!r}: see `pyhybrid ps`")
        for each in found:
            family = [each, *(below(each.pid, lambda _: True) if children else [])]
            yield from (one for one in family if one.pid not in seen)
            seen.update(one.pid for one in family)
