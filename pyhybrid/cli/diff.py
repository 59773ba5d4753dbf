"""`pyhybrid diff`: two groups of runs of one program, and what differs by more than noise."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pyhybrid.assemble import open_profile
from pyhybrid.base.terminal_text import write_lines
from pyhybrid.cli.parser import DIVIDER, Parser, word
from pyhybrid.errors import UsageError
from pyhybrid.exporters.destination import replacing
from pyhybrid.exporters.page.diff import comparison_page
from pyhybrid.options.kinds import Number
from pyhybrid.report.diff import comparison_json, markdown, print_comparison
from pyhybrid.views.diff.change_limits import EXCEEDED, METRICS, UNSURE, WRONG, Limit, judge
from pyhybrid.views.diff.compared_paths import ComparedPaths
from pyhybrid.views.diff.runs import compare

N_ROWS = 12
ERROR = 3  # the exit code


class Diff:
    """Compares runs: BEFORE AFTER, or BEFORE... -- AFTER...; exact calls first, then the time of a
    call, then sampled time with its errors.  With three or more runs a side these show themselves
    what is noise.

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
            parser.divides = True
        parser.add_argument(
            "files", nargs="+", help="profiles: BEFORE AFTER, or BEFORE... -- AFTER..."
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
            type=word(Number(1, 1_000_000)),
            default=N_ROWS,
            metavar="N",
            help="rows of each table (default: %(default)s); --json has all",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        paths = ComparedPaths() if args.html else None
        comparison = compare(*_sides(args.files), open_profile, paths)
        if paths:
            page = comparison_page(comparison, paths)
            with replacing(args.html) as temporary:
                Path(temporary).write_bytes(page.encode("utf-8", "backslashreplace"))
        verdicts = [judge(comparison, limit) for limit in args.fail_if]
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
