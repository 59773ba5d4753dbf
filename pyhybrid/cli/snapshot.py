"""`pyhybrid snapshot`: a profile of what a run that goes on has recorded so far."""

import argparse
import os
import time

from pyhybrid.attach.processes import spool_of
from pyhybrid.capture.children import FOLDER
from pyhybrid.capture.children import PART as SUFFIX
from pyhybrid.capture.output_lock import PART, prefix_of
from pyhybrid.errors import UsageError
from pyhybrid.options.table import ALL_FORMATS


class Snapshot:
    """Makes a profile of what a run that goes on has recorded so far, its children's part, too, and
    prints the summary; with --keep-last that is the last minutes.  The program does not notice it.
    """

    name = "snapshot"
    words = "PID | PREFIX"
    help = "make a profile of what a run has recorded so far"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "run",
            metavar="PID | PREFIX",
            help="a process of the run, or how its files' names begin",
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="PREFIX",
            help="how the profile's name begins (default: PREFIX-DATE-TIME)",
        )
        parser.add_argument(
            "--format",
            action="append",
            default=[],
            choices=ALL_FORMATS,
            metavar="NAME",
            help="write this format, too: html, pprof, folded, ...; repeatable",
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")

    def run(self, args: argparse.Namespace) -> int:
        """Make it; returns the exit code.  Raises PyhybridError."""
        from pyhybrid.finish.finish import export
        from pyhybrid.finish.snapshot import make_snapshot

        spool = _spool(args.run)
        usual = f"{spool.removesuffix(PART)}-{time.strftime('%Y%m%d-%H%M%S')}"
        prefix = os.path.abspath(prefix_of(args.output or usual))
        path = make_snapshot(spool, prefix, "pyhybrid snapshot")
        return export(path, prefix, args.format, not args.quiet)


def _spool(run: str) -> str:
    """Return the spool of the run.  Raises UsageError."""
    if run.isdecimal() and not os.path.exists(run + PART):
        spool = spool_of(int(run))
        if not spool:
            raise UsageError(f"process {run} is not profiled, or may not be seen")
        folder = os.path.dirname(spool)
        if folder.endswith(FOLDER):  # a child's
            spool = folder.removesuffix(FOLDER) + SUFFIX
        return spool
    path = run if run.endswith(PART) else prefix_of(run) + PART
    if not os.path.exists(path):
        raise UsageError(f"{path}: there is no such file: no run goes on there")
    return path
