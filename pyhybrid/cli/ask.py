"""`pyhybrid ask`: what a profile has to say as one line of JSON, for a script or an agent."""

import argparse
import json
import sys
from typing import Any

from pyhybrid.cli.parser import word
from pyhybrid.cli.report_views import View
from pyhybrid.options.kinds import Number
from pyhybrid.report.table import plain
from pyhybrid.tables.profile import Profile


class Ask(View):
    """Prints what a profile has to say as one line of JSON: how it was measured, what stands out,
    the first rows of each view, and the commands that show more.
    """

    name = "ask"
    words = "[FILE]"
    help = "print what stands out and the first rows of each view as one line of JSON"
    has_exact_times = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """See View."""
        parser.add_argument(
            "-n",
            dest="rows",
            type=word(Number(1, 1000)),
            default=8,
            metavar="N",
            help="rows of each view (default: %(default)s)",
        )

    def figures(self, profile: Profile, args: argparse.Namespace) -> Any:
        """See View."""
        from pyhybrid.report.answers import answers

        return answers(profile, args.rows)

    def print_json(self, profile: Profile, notes: list[str], args: argparse.Namespace) -> None:
        """See View; the notes describe which part of the profile it is about."""
        found = self.figures(profile, args)
        json.dump(
            plain(found._replace(notes=[*notes, *found.notes])), sys.stdout, separators=(",", ":")
        )
        print()

    print_text = print_json
