"""`pyhybrid report`: the summary of a profile, again, or its lines."""

import argparse
import sys

from pyhybrid.profile_file import Profile
from pyhybrid.render import print_summary
from pyhybrid.render_lines import print_lines
from pyhybrid.summary import as_json, summarize


class Report:
    """Prints the summary on stdout, for people or as JSON (keys: summary.Summary), or the lines."""

    name = "report"
    help = "print the summary of a profile"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "file",
            nargs="?",
            default="out.pyhybrid",
            help="profile, or .part (default: %(default)s)",
        )
        parser.add_argument("--json", action="store_true", help="as JSON")
        parser.add_argument(
            "--lines", action="store_true", help="the lines that a run with --lines recorded"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        with Profile.open(args.file) as profile:
            if args.lines and not args.json:
                print_lines(profile, sys.stdout)
                return 0
            summary = summarize(profile, [], [])
        if args.json:
            import json

            json.dump(as_json(summary), sys.stdout, indent=2)
            print()
        else:
            print_summary(summary, sys.stdout)
        return 0
