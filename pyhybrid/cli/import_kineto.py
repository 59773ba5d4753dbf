"""`pyhybrid import kineto`: work of a GPU from a trace, into a profile."""

import argparse
import sqlite3

from pyhybrid.base.files import one_line
from pyhybrid.base.terminal_text import say
from pyhybrid.cli.selection_options import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.gpu import place
from pyhybrid.gpu.kineto import read


class ImportKineto:
    """Puts what a trace of torch.profiler's says of the GPU below the calls of a profile of the
    same run, made with --events, instead of what an earlier import put there.  `report modules`
    shows it.
    """

    name = "import"
    words = "kineto TRACE"
    help = "put a trace's GPU work into a profile"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("format", choices=["kineto"], help="torch.profiler's traces")
        parser.add_argument("trace", help="the trace, JSON, or compressed by gzip")
        parser.add_argument("file", nargs="?", help="the profile (default: out.pyhybrid)")

    def run(self, args: argparse.Namespace) -> int:
        """Write it; returns the exit code.  Raises PyhybridError."""
        trace = read(args.trace)
        with open_profile(args) as profile:
            placed, path = place(profile, trace), profile.path
        if not (trace.work or trace.waits):
            notes = "".join(f"; {note}" for note in trace.notes)
            raise PyhybridError(
                f"{args.trace}: a trace in which no GPU ran a kernel or copied anything{notes}"
            )
        try:
            with sqlite3.connect(path) as database:
                placed.write(database)
            database.close()
        except sqlite3.Error as error:
            raise PyhybridError(f"cannot write {path}: {one_line(error)}") from None
        for note in trace.notes:
            say(f"{args.trace}: {note}")
        left = "".join(f", {n:,} {why}" for why, n in placed.unplaced.most_common())
        n_left = placed.unplaced.total()
        say(
            f"{path}: {placed.n_placed:,} kernels and copies placed"
            + (f"; {n_left:,} below no call{left}" if n_left else "")
            + (f"; {placed.n_in_sums:,} short ones in sums alone" if placed.n_in_sums else "")
        )
        return 0
