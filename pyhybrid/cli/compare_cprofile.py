"""`pyhybrid compare-cprofile`: one program under cProfile and under pyhybrid, and what differs."""

import argparse
import marshal
import os
import stat
import subprocess
import sys
import tempfile
import threading
from typing import IO

from pyhybrid.base.terminal_text import write_lines
from pyhybrid.capture.run_program import Program
from pyhybrid.cli.named_program import as_interpreter_takes
from pyhybrid.cli.parser import word
from pyhybrid.errors import PyhybridError
from pyhybrid.options.kinds import Number
from pyhybrid.report.cprofile_diff import Difference, compare, difference_listing
from pyhybrid.report.table import shown
from pyhybrid.tables.profile import Profile


class CompareCprofile:
    """Runs a program under cProfile, then under pyhybrid --mode trace, and prints where the two
    differ in calls or by more than 20 % and 1 ms in total time, and why where that is known.

    Both runs get the same input and, unless it is set, PYTHONHASHSEED=0; their output is dropped.
    """

    name = "compare-cprofile"
    words = "FILE"
    help = "run a program under cProfile, too, and compare"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "-n",
            type=word(Number(1, 1_000_000)),
            default=20,
            metavar="N",
            help="rows printed at most (default: %(default)s)",
        )
        parser.add_argument("script", help="the program")
        parser.add_argument("args", nargs=argparse.REMAINDER, help="its own arguments")

    def run(self, args: argparse.Namespace) -> int:
        """Run twice and print; returns the exit code.  Raises PyhybridError."""
        program = as_interpreter_takes([args.script, *args.args])
        Program(program)  # is there such a thing?
        try:
            with tempfile.TemporaryDirectory(prefix="pyhybrid-") as folder:
                differences = _differences(folder, program)
        except OSError as error:
            raise PyhybridError(f"cannot run {args.script}: {error.strerror or error}") from None
        except KeyboardInterrupt:
            raise PyhybridError("interrupted") from None
        write_lines(shown(difference_listing(differences, args.n)), sys.stdout)
        return 0


def _differences(folder: str, program: list[str]) -> list[Difference]:
    counts, prefix = os.path.join(folder, "cprofile"), os.path.join(folder, "trace")
    options = ["--no-config", "--mode", "trace", "--format", "folded", "-q", "-o", prefix, "--"]
    given = _Input()
    _run("cProfile", ["pyhybrid.cli.cprofile_run", counts, *program], given, folder)
    _run("pyhybrid", ["pyhybrid", *options, *program], given, folder)
    try:
        with open(counts, "rb") as file:
            theirs = marshal.load(file)
        with Profile.open(prefix + ".pyhybrid") as profile:
            return compare(profile, theirs)
    except (EOFError, ValueError, FileNotFoundError):
        raise PyhybridError(f"{program[0]} ended without its profile (os._exit, exec?)") from None


class _Input:
    """Give standard input to one run after the other.

    A file is read from where it stood each time.  What comes through a pipe is passed on to the
    first run as it comes, and kept for the second.
    """

    def __init__(self) -> None:
        try:
            mode = os.fstat(0).st_mode
        except OSError:  # closed
            mode = 0
        self._start = os.lseek(0, 0, os.SEEK_CUR) if stat.S_ISREG(mode) else None
        self._comes = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._kept: list[bytes] | None = None

    def run(self, command: list[str], errors: IO[bytes]) -> int:
        """Run the command, its output dropped; returns its exit code."""
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
        environment = {"PYTHONHASHSEED": "0", **os.environ}
        pipe, null = subprocess.PIPE if self._comes else None, subprocess.DEVNULL
        with subprocess.Popen(
            command, stdin=pipe, stdout=null, stderr=errors, env=environment
        ) as process:
            if process.stdin:
                again = self._kept
                self._kept = kept = [] if again is None else again
                feed = (process.stdin, again, kept)
                threading.Thread(target=_feed, args=feed, daemon=True).start()
            return process.wait()


def _feed(pipe: IO[bytes], again: list[bytes] | None, kept: list[bytes]) -> None:
    try:
        with pipe:
            if again is not None:
                pipe.writelines(again)
                return
            while data := os.read(0, 1 << 16):
                kept.append(data)
                pipe.write(data)
                pipe.flush()
    except (OSError, ValueError):  # the program has ended, or reads no more
        return


def _run(profiler: str, module: list[str], given: _Input, folder: str) -> None:
    """Run one profiler; raises PyhybridError where the program fails, with its last line."""
    safe_path = ["-P"] if sys.flags.safe_path else []
    command = [sys.executable, *safe_path, "-m", *module]
    with open(os.path.join(folder, "stderr"), "w+b") as errors:
        code = given.run(command, errors)
        errors.seek(0)
        lines = errors.read().decode(errors="backslashreplace").strip().splitlines()
    if code:
        how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        reason = f": {lines[-1].removeprefix('pyhybrid: ')}" if lines else ""
        raise PyhybridError(f"the program failed under {profiler} ({how}){reason}")
