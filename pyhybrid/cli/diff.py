"""`pyhybrid diff`: two groups of runs of one program, and what differs by more than noise."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyhybrid.assemble import open_profile
from pyhybrid.base.terminal_text import say, write_lines
from pyhybrid.cli.diff_in_turns import Turns, commands
from pyhybrid.cli.parser import DIVIDER, Parser, word
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters.destination import replacing
from pyhybrid.exporters.page.diff import comparison_page
from pyhybrid.options.kinds import Number
from pyhybrid.report.diff import comparison_json, markdown, print_comparison
from pyhybrid.report.table import plain, shown
from pyhybrid.tables.profile import Profile
from pyhybrid.views.diff.change_limits import (
    EXCEEDED,
    METRICS,
    UNSURE,
    WRONG,
    Limit,
    Verdict,
    judge,
)
from pyhybrid.views.diff.compared_paths import ComparedPaths
from pyhybrid.views.diff.runs import Comparison, Runs, compare, compared
from pyhybrid.views.selection.sample_selection import Choice, choose

N_ROWS = 12
MOST = 1_000_000
TIMES_MORE = 3  # of the runs that are asked for, made at most until limits can be told
ERROR = 3  # the exit code


class Diff:
    """Compares runs: BEFORE AFTER, or BEFORE... -- AFTER...; exact calls first, then the time of a
    call, then sampled time with its errors.  With three or more runs a side these show themselves
    what is noise.  `--run N -- PROGRAM -- PROGRAM` makes the runs, too.

    The exit code is 1 where a limit of --fail-if is exceeded for certain, 2 where these files
    cannot tell, 3 for errors.
    """

    name = "diff"
    words = "BEFORE AFTER"
    help = "compare runs, with errors"
    error_code = ERROR

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        if isinstance(parser, Parser):
            parser.divides, parser.rest_with = True, "run"
        parser.add_argument(
            "files",
            nargs="*",
            help="profiles: BEFORE AFTER, or BEFORE... -- AFTER...; FILE#PROCESS: one process of "
            "it, as --process of report names it; or two folders of ranks",
        )
        parser.add_argument(
            "--run",
            type=word(Number(1, MOST)),
            metavar="N",
            help="run two programs in turns, N times each, and compare: --run 3 -- before.py ARGS "
            "-- after.py ARGS, each as behind `pyhybrid`; where --fail-if cannot tell, more often",
        )
        parser.add_argument(
            "--run-most",
            type=word(Number(1, MOST)),
            metavar="N",
            help=f"--run: at most so often (default: {TIMES_MORE} times as often)",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="DIR",
            help="--run: keep profiles and what programs print in this folder (by default in a "
            "temporary one, which stays where the exit code is not 0)",
        )
        parser.add_argument(
            "--steps",
            action="store_true",
            help="the steps of a training or of inference alone: each phase's time, and which "
            "modules and functions explain its change; exit code 3 where there are none",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="as JSON")
        form.add_argument(
            "--markdown", action="store_true", help="as Markdown, for a comment in CI"
        )
        parser.add_argument(
            "--html", metavar="FILE", help="write a page for a browser, too: both call trees in one"
        )
        parser.add_argument(
            "--fail-if",
            action="append",
            type=_limit,
            default=[],
            metavar="LIMIT",
            help="exit code 1 where this is certain: 'share(train_step) > +5%%'; "
            + ", ".join(f"{name}: {text}" for name, text in METRICS.items())
            + "; total(*): the whole program; repeatable",
        )
        parser.add_argument(
            "--allow-unsure",
            action="store_true",
            help="--fail-if: exit code 0, not 2, where these files cannot tell",
        )
        parser.add_argument(
            "-n",
            type=word(Number(1, MOST)),
            default=N_ROWS,
            metavar="N",
            help="rows of each table (default: %(default)s); --json has all",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        if args.run is not None:
            return self._run_in_turns(args)
        if args.files and all(map(os.path.isdir, args.files)):
            return _diff_ranks(args)
        if args.run_most or args.output:
            raise UsageError("--run-most and -o go with --run")
        return _compare(args, *_sides(args.files))

    def _run_in_turns(self, args: argparse.Namespace) -> int:
        if args.files:
            raise UsageError("diff --run takes programs, not files: --run N -- PROGRAM -- PROGRAM")
        most = args.run_most or TIMES_MORE * args.run
        if most < args.run:
            raise UsageError(f"--run-most {most} is less than --run {args.run}")
        with contextlib.ExitStack() as stack:
            turns = stack.enter_context(Turns(commands(args.rest), args.output))
            self._until_told(turns, args.run, most, args.fail_if)
            code = _compare(args, *turns.files)
            turns.are_needed = code != 0
            return code

    def _until_told(self, turns: Turns, n: int, most: int, limits: Sequence[Limit]) -> None:
        """Run until all limits can be told.  Each look may be wrong, so there are few."""
        runs = Runs(open_profile)
        sides: tuple[list[Any], list[Any]] = ([], [])
        while True:
            turns.run(n)
            if not limits:
                return
            for read, files in zip(sides, turns.files, strict=True):
                read += [*map(runs.read, files[len(read) :])]
            unsure = [each for each in _judged(compared(*sides), limits) if each.more_runs_tell]
            if not unsure:
                return
            if n == most:
                limit = "; ".join(each.limit for each in unsure)
                say(f"{n} runs a side, the most there may be (--run-most), cannot tell: {limit}")
                return
            n = min(most, max(n + 1, *(each.runs or most for each in unsure)))


def _opened(name: str) -> Profile:
    """Open a file, or of `FILE#PROCESS` these processes alone.  Raises PyhybridError."""
    path, mark, process = name.rpartition("#")
    if not mark or os.path.exists(name):
        return open_profile(name)
    return choose(open_profile(path), Choice(processes=[process]))[0]


def _judged(comparison: Comparison, limits: Sequence[Limit]) -> list[Verdict]:
    return [judge(comparison, limit) for limit in limits]


def _compare(args: argparse.Namespace, before: list[str], after: list[str]) -> int:
    """Print what the files show; returns the exit code."""
    paths = ComparedPaths() if args.html else None
    comparison = compare(before, after, _opened, paths)
    verdicts = _judged(comparison, args.fail_if)
    if paths:
        page = comparison_page(comparison, paths)
        with replacing(args.html) as temporary:
            Path(temporary).write_bytes(page.encode("utf-8", "backslashreplace"))
    if args.steps:
        if not comparison.steps:
            raise PyhybridError("not all runs have steps of a training or of inference")
        comparison.functions = []
    if args.json:
        json.dump(comparison_json(comparison, verdicts), sys.stdout, indent=2)
        print()
    elif args.markdown:
        write_lines(markdown(comparison, verdicts, args.n), sys.stdout)
    else:
        print_comparison(comparison, verdicts, args.n, sys.stdout)
    states = {verdict.state for verdict in verdicts}
    if WRONG in states:
        return ERROR
    if EXCEEDED in states:
        return 1
    return 2 if UNSURE in states and not args.allow_unsure else 0


def _limit(text: str) -> Limit:
    try:
        return Limit.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sides(files: list[Any]) -> tuple[list[str], list[str]]:
    if DIVIDER not in files:
        if len(files) != 2:
            raise UsageError("diff takes two files, or BEFORE... -- AFTER...")
        return files[:1], files[1:]
    at = files.index(DIVIDER)
    before, after = files[:at], files[at + 1 :]
    if not before or not after or DIVIDER in after:
        raise UsageError("diff takes files on both sides of one --")
    return before, after


def _diff_ranks(args: argparse.Namespace) -> int:
    """Compare two folders of ranks, as `pyhybrid ranks` reads them."""
    from pyhybrid.ranks.changes import changes, changes_listing
    from pyhybrid.ranks.store import Ranks, closing

    others = args.fail_if or args.html or args.markdown
    if len(args.files) != 2 or others:
        raise UsageError("of ranks diff takes two folders, and --json or -n")
    with closing(Ranks(args.files[0])) as before, closing(Ranks(args.files[1])) as after:
        found = changes(before, after)
        if args.json:
            json.dump(plain(found), sys.stdout, indent=2)
            print()
        else:
            write_lines(shown(changes_listing(found, args.n)), sys.stdout)
    return 0
