"""`pyhybrid import`: work of a GPU from a trace, or its memory from a snapshot, into a profile."""

import argparse
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from pyhybrid.base.files import one_line
from pyhybrid.base.terminal_text import say, write_lines
from pyhybrid.cli.selection_options import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.gpu import place
from pyhybrid.gpu.kineto import read
from pyhybrid.gpu.memory_snapshot import read_snapshot
from pyhybrid.report.memory_listing import memory_listing
from pyhybrid.report.table import plain, shown
from pyhybrid.views.training.device_memory import META, device_memory
from pyhybrid.views.training.memory import of_devices


class ImportGpu:
    """Puts what a trace of torch.profiler's says of the GPU below the calls of a profile of the
    same run, made with --events, instead of what an earlier import put there; `report modules`
    shows it.  Or a snapshot of CUDA memory, which `report memory` shows by module; without a
    profile its figures are printed.
    """

    name = "import"
    words = "KIND FILE"
    help = "put a GPU's trace or memory into a profile"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "format",
            choices=["kineto", "memory"],
            help="torch.profiler's trace, or what torch.cuda.memory._dump_snapshot wrote",
        )
        parser.add_argument("trace", help="the trace, JSON, or compressed by gzip; the snapshot")
        parser.add_argument("file", nargs="?", help="the profile (default: out.pyhybrid)")

    def run(self, args: argparse.Namespace) -> int:
        """Write it; returns the exit code.  Raises PyhybridError."""
        if args.format == "memory":
            return self._memory(args)
        trace = read(args.trace)
        with open_profile(args) as profile:
            placed, path = place(profile, trace), profile.path
        if not (trace.work or trace.waits):
            notes = "".join(f"; {note}" for note in trace.notes)
            raise PyhybridError(
                f"{args.trace}: a trace in which no GPU ran a kernel or copied anything{notes}"
            )
        with _writing(path) as database:
            placed.write(database)
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

    def _memory(self, args: argparse.Namespace) -> int:
        """Write a snapshot's figures into the profile, or print them where there is none."""
        devices = read_snapshot(args.trace)
        if not args.file and not os.path.exists("out.pyhybrid"):
            figures = of_devices(device_memory(args.trace, devices, None))
            write_lines(shown(memory_listing(figures)), sys.stdout)
            return 0
        with open_profile(args) as profile:
            found, path = device_memory(args.trace, devices, profile), profile.path
        with _writing(path) as database:
            row = META, json.dumps(plain(found))
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
        named = sum(bool(call.module) for each in found for call in each.calls)
        n = sum(len(each.calls) for each in found)
        say(
            f"{path}: memory of {len(found)} GPU{'s' * (len(found) != 1)}, {n:,} calls, of which "
            f"{named:,} are in modules: `pyhybrid report memory`"
        )
        return 0


@contextmanager
def _writing(path: str) -> Iterator[sqlite3.Connection]:
    """Open a profile for a change that is made whole, or not at all.  Raises PyhybridError."""
    try:
        with closing(sqlite3.connect(path)) as database, database:
            yield database
    except sqlite3.Error as error:
        raise PyhybridError(f"cannot write {path}: {one_line(error)}") from None
